"""What limits the jobs of a step on a real Slurm: the breaker, the site's longest array."""
import pytest
import slurm_cluster
from conftest import start_slurm
from harness import read, wait_until
from test_failures import MISTAKE
from test_slurm import in_the_place_of, long
from test_slurm_hold import closed  # noqa: F401


@pytest.fixture(scope="module")
def slurm_of_module():
    """Arrays have 250 tasks at most."""
    parameters = slurm_cluster.DEFAULTS["SchedulerParameters"] + ",max_array_tasks=250"
    cluster = start_slurm(SchedulerParameters=parameters)
    yield cluster
    cluster.stop()


def submit(home, text):
    home.submit(text, "--on", "slurm")


def count(home, *states):
    return sum(state in states for state in home.states().values())


def trains(home, mistaken):
    """A program for which i = 0 is no mistake, but waits at the gate."""
    otherwise = f'printf "{MISTAKE}"; exit 1' if mistaken else "exec stamp 0"
    home.script("train", f'#!/bin/sh\n[ "$1" = 0 ] && exec stamp 0\n{otherwise}\n')


@long
def test_equal_mistakes_of_tasks_hold_the_rest_until_one_of_the_step_succeeds(slurm, home):
    trains(home, mistaken=True)
    home.close_gate()
    submit(home, """
name = "mistaken"
[grid]
i = [0, 1, 2, 3, 4, 5, 6]
[steps.train]
command = ["train", "{i}"]
breaker = 2
max_parallel = 2
""")  # fmt: skip
    wait_until(lambda: count(home, "held") and count(home, "failed", "held") == 6, "the breaker")
    wait_until(lambda: len(slurm.open()) == 1, "the leaving of what is held")
    assert 2 <= count(home, "failed") < 6 and home.stamps.count("start") == 1
    why = home.run("why", "mistaken/6").stdout
    assert "2 jobs of step train failed the same way" in why and "KeyError" in why, why
    trains(home, mistaken=False)
    home.open_gate()
    assert home.wait() == 1, "what has failed by then"
    assert count(home, "done") >= 2 and count(home, "done") + count(home, "failed") == 7
    home.run("retry", "mistaken", "--failed")
    assert home.wait() == 0
    assert count(home, "done") == home.stamps.count("start") == 7


@long
def test_equal_mistakes_in_an_allocation_hold_the_rest_of_it_and_the_sweep_again_goes_on(slurm, home):
    trains(home, mistaken=True)
    text = """
name = "mistaken"
[slurm]
jobs_per_allocation = 6
[grid]
i = [1, 2, 3, 4, 5, 6]
[steps.train]
command = ["train", "{i}"]
"""
    submit(home, text)
    wait_until(lambda: count(home, "held"), "the breaker")
    assert count(home, "failed") >= 3
    assert "3 jobs of step train failed the same way" in home.run("why", "mistaken/5").stdout
    trains(home, mistaken=False)
    wait_until(lambda: count(home, "running", "queued", "starting") == 0, "the end of the one that is tried")
    submit(home, text)
    assert home.wait() == 0
    assert count(home, "done") == home.stamps.count("start") == 6


def test_an_array_has_no_more_tasks_than_the_site_allows(slurm, home, closed):  # noqa: F811
    submit(home, "name = 'many'\n[grid]\ni = { from = 1, to = 310, n = 310 }\n[steps.train]\ncommand = 'stamp 0'\n")
    wait_until(lambda: len(slurm.open()) == 310, "all in Slurm's hands")
    tasks = [task.split("_")[0] for task in slurm.open()]
    assert sorted(map(tasks.count, set(tasks))) == [60, 250]
    home.run("cancel", "many")
    wait_until(lambda: not slurm.open(), "the leaving of all")
    assert count(home, "cancelled") == 310


@long
def test_tasks_that_squeue_has_no_room_for_are_not_taken_for_ended(slurm, home, closed):  # noqa: F811
    in_the_place_of(home, "squeue", f'echo >> {home.work}/asked\nexec $REAL "$@"')
    submit(home, "name = 'sparse'\n[grid]\ni = { from = 1, to = 300, n = 300 }\n[steps.train]\ncommand = 'stamp 0'\n")
    wait_until(lambda: len(slurm.open()) == 300, "all in Slurm's hands")
    home.run("hold", *(f"sparse/{i}" for i in range(1, 300, 3)))
    wait_until(lambda: len(slurm.open()) == 200, "the leaving of every third one")
    lists = slurm.run("env", "SLURM_BITSTR_LEN=0", "squeue", "-h", "--Format=ArrayTaskID:4000").split()
    assert max(map(len, lists)) > 400, lists
    looks = len(read(f"{home.work}/asked"))
    wait_until(lambda: len(read(f"{home.work}/asked")) > looks + 4, "some looks at the queue")
    assert count(home, "queued") == 200 and count(home, "held") == 100
    assert len({task.split("_")[0] for task in slurm.queue()}) == 2, "nothing was submitted again"
    home.run("cancel", "sparse")
    wait_until(lambda: not slurm.open(), "the leaving of all")
    assert count(home, "cancelled") == 300
