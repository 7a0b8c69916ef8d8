"""Changes of mind while a real Slurm has the job: within seconds, and inside an allocation that runs."""
import glob
import json
import os
import signal

import pytest
from harness import read, wait_until
from test_slurm import in_the_place_of, long

TWO_STEPS = """
name = "mind"
[steps.train]
command = "stamp 0"
[steps.evaluate]
needs = ["train"]
command = "stamp 0"
"""
# Both are one task: the second begins when the first has ended.
TWO_IN_A_TASK = """
name = "pair"
[slurm]
jobs_per_allocation = 2
[grid]
x = [1, 2]
[steps.train]
command = "stamp 0"
"""
# A task has a job of each run.
TWO_TASKS = """
name = "groups"
[slurm]
jobs_per_allocation = 2
[grid]
x = [1, 2]
[steps.train]
command = "stamp 0"
[steps.evaluate]
needs = ["train"]
command = "stamp 0"
"""
MANY = """
name = "many"
[grid]
x = [1, 2, 3, 4, 5]
[steps.train]
command = "stamp 0"
"""


def submit(home, text):
    home.submit(text, "--on", "slurm")


@pytest.fixture
def closed(slurm):
    """Nothing begins before closed() is called."""

    def partition(state):
        slurm.run("scontrol", "update", "PartitionName=p", f"State={state}")

    partition("DOWN")
    yield lambda: partition("UP")
    partition("UP")


@long
def test_what_is_held_and_released_at_once_runs(slurm, home):
    home.close_gate()
    submit(home, TWO_STEPS)
    home.until_running()
    wait_until(lambda: len(slurm.open()) == 2, "both in Slurm's queue")
    home.run("hold", "mind/*/evaluate")
    wait_until(lambda: len(slurm.open()) == 1, "its leaving Slurm's queue")
    home.run("release", "mind/*/evaluate")
    home.open_gate()
    assert home.wait() == 0
    assert set(home.states().values()) == {"done"} and home.stamps.count("start") == 2


@pytest.mark.parametrize(("command", "state"), [("hold", "held"), ("cancel", "cancelled")])
def test_who_leaves_the_queue_of_slurm_leaves_the_others_of_its_array_there(slurm, home, closed, command, state):
    submit(home, MANY)
    wait_until(lambda: len(slurm.open()) == 5, "all in Slurm's queue")
    array = slurm.open()[0].split("_")[0]
    home.run(command, "many/1", "many/2")
    wait_until(lambda: len(slurm.open()) < 5, "the leaving")
    assert sorted(slurm.open()) == [f"{array}_{task}" for task in (0, 3, 4)]
    closed()
    home.wait()
    assert list(home.states().values()) == ["done", state, state, "done", "done"]
    assert {task.split("_")[0] for task in slurm.queue()} == {array}, "nothing was submitted again"


def test_a_hold_in_an_allocation_that_waits_keeps_nothing_else_from_slurm(slurm, home, closed):
    submit(home, TWO_IN_A_TASK)
    wait_until(lambda: len(slurm.open()) == 1, "the allocation of both in Slurm's queue")
    home.run("hold", "pair/1")
    home.submit(MANY, "--on", "slurm", name="many.toml")
    wait_until(lambda: len(slurm.open()) == 6, "the other sweep in Slurm's queue", 20)
    closed()
    home.run("wait", "many")
    home.run("wait", "pair", code=1)
    assert list(home.states("pair").values()) == ["done", "held"]


@pytest.fixture
def pair(slurm, home):
    """The first job of a task runs, the second waits behind it; scancel is as slow as the file `slow` lasts."""
    in_the_place_of(home, "scancel", f'''
while [ -e {home.work}/slow ]; do sleep 0.02; done
exec $REAL "$@"
''')
    home.close_gate()
    submit(home, TWO_IN_A_TASK)
    home.until_running()
    wait_until(lambda: home.states() == {"00-x=1/train": "running", "01-x=2/train": "queued"}, "the first")
    return home


def told(home):
    """What the tasks have written about their jobs."""
    return "".join(map(read, glob.glob(f"{home.work}/runs/*/.slurm/*/*.jsonl")))


def test_what_is_held_in_a_running_allocation_does_not_begin_there_and_comes_back(slurm, pair):
    home = pair
    home.run("hold", "pair/1")
    wait_until(lambda: "cancelled" in told(home), "the task's answer")
    home.open_gate()
    wait_until(lambda: not slurm.open(), "the end of the allocation")
    wait_until(lambda: home.states() == {"00-x=1/train": "done", "01-x=2/train": "held"}, "both as they are to be")
    assert home.stamps.count("start") == 1
    home.run("release", "pair/1")
    assert home.wait() == 0
    assert home.states() == {"00-x=1/train": "done", "01-x=2/train": "done"}
    assert [line[1] for line in home.stamps.lines() if line[0] == "start"] == [1, 2]
    assert len(slurm.queue()) == 2, "an allocation for each of them"


def test_a_hold_that_comes_when_a_job_has_just_begun_lets_it_run(slurm, pair):
    home = pair
    (folder,) = glob.glob(f"{home.work}/runs/pair/.slurm/pair-*")
    held, cancelled = ({"job": job, "kill": False, "unless_begun": job == 1, "words": "test"} for job in (1, 2))
    with open(folder + "/end.0.json", "w") as file:
        json.dump({"end": [held, cancelled]}, file)
    (task,) = home.processes("slurm-task")
    os.kill(task, signal.SIGUSR1)
    wait_until(lambda: "cancelled" in told(home), "the task's answer")
    home.open_gate()
    home.wait()
    assert home.states() == {"00-x=1/train": "done", "01-x=2/train": "cancelled"}


@pytest.mark.parametrize("moment", [
    "when its task has let go", pytest.param("before its task hears", marks=long), "and its coordinator is killed",
])
def test_what_is_held_and_released_while_its_allocation_runs_another_runs_once(slurm, pair, moment):
    home = pair
    is_early = moment != "when its task has let go"
    if is_early:
        home.file("slow", "")
    home.run("hold", "pair/1")
    wait_until(lambda: glob.glob(f"{home.work}/runs/pair/.slurm/*/end.0.json"), "the request to its task")
    if is_early:
        home.run("release", "pair/1")
        if "killed" in moment:
            home.kill_coordinator()
            (task,) = home.processes("slurm-task")
            os.kill(task, signal.SIGUSR1)  # what it was about to do
        os.remove(f"{home.work}/slow")
    wait_until(lambda: "cancelled" in told(home), "the task's answer")
    if not is_early:
        home.run("release", "pair/1")
    home.open_gate()
    home.wait()
    assert home.states() == {"00-x=1/train": "done", "01-x=2/train": "done"}
    assert home.stamps.count("start") == 2


@long
def test_a_cancel_is_heard_where_its_request_is_seen_after_its_signal(slurm, home):
    # To the task it is as if there had been no signal.
    in_the_place_of(home, "scancel", 'case "$*" in *--signal=USR1*) exit 0 ;; esac\nexec $REAL "$@"\n')
    home.close_gate()
    submit(home, MANY.replace(", 2, 3, 4, 5", ""))
    home.until_running()
    wait_until(lambda: home.only()["state"] == "running", "a running job")
    home.run("cancel", "many")
    wait_until(lambda: home.only()["state"] == "cancelled", "its end", 30)


def test_a_task_waits_for_no_record_of_what_was_cancelled(slurm, home):
    home.close_gate()
    submit(home, TWO_TASKS)
    home.until_running()
    wait_until(lambda: len(slurm.open()) == 2, "the allocations of both steps")
    home.run("cancel", "groups/1/train")
    wait_until(lambda: len(glob.glob(f"{home.work}/runs/groups/.slurm/*/end.0.json")) == 2, "the requests to both")
    wait_until(lambda: "cancelled" in told(home), "the answer of the first")
    home.open_gate()
    wait_until(lambda: home.states()["00-x=1/evaluate"] == "done", "what does not need it", 30)
    home.wait()
    assert home.states() == {
        "00-x=1/train": "done", "01-x=2/train": "cancelled", "00-x=1/evaluate": "done", "01-x=2/evaluate": "skipped",
    }  # fmt: skip
    home.run("retry", "groups/1/train")
    assert home.wait() == 0
    assert set(home.states().values()) == {"done"} and home.stamps.count("start") == 4
