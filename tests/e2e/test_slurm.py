"""Sweeps on a real Slurm of one node (slurm_cluster.py)."""
import json
import os
import random
import shutil
import signal
import time

import pytest
from harness import LONG, read, strip_colours, wait_until

long = pytest.mark.skipif(not LONG, reason="Slurm takes its time: PERGPU_LONG=1")

TWO_STEPS = """
name = "two"
[grid]
x = [1, 2, 3]
[steps.train]
shell = "echo $PERGPU_PARAM_X; echo '{\\"loss\\": '$PERGPU_PARAM_X'}' >> $PERGPU_METRICS; stamp 0"
[steps.evaluate]
needs = ["train"]
command = "stamp 0"
"""


def submit(home, text, *args, **options):
    return home.submit(text, "--on", "slurm", *args, **options)


def table(text):
    """The lines of the table, without times."""
    lines = strip_colours(text).splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("RUN"))
    return [[word for word in line.split() if not word.endswith("s")] for line in lines[begin:]]


def gone(slurm):
    wait_until(lambda: not slurm.open(), "the end of Slurm's jobs")


def test_a_sweep_ends_as_it_does_here(slurm, home, new_home):
    out = home.run("run", home.file("two.toml", TWO_STEPS), "--on", "slurm")
    here = new_home()
    expected = here.run("run", here.file("two.toml", TWO_STEPS), "--lanes", 2)
    assert table(out.stdout) == table(expected.stdout)
    assert set(home.states().values()) == {"done"}
    record = json.loads(read(f"{home.work}/runs/two/00-x=1/train/attempt.json"))
    assert record["state"] == "done" and record["attempt"] == 1
    assert read(f"{home.work}/runs/two/01-x=2/train/log.txt") == "2\n"
    job = home.ps()["02-x=3/train"]
    assert job["node"] == "n0" and job["lane"] in ("lane0", "lane1", "lane2")
    assert home.run("ps", "-a").stdout.count(" n0\n") == 6
    # The second step was in Slurm's hands before the first had ended: two arrays of three.
    assert sorted(slurm.queue().values()) == ["COMPLETED"] * 6


def test_a_step_waits_for_its_own_run_and_a_barrier_for_all(slurm, home):
    submit(home, """
name = "needs"
[grid]
x = [1, 2]
[steps.first]
once = true
command = "stamp 0"
[steps.train]
needs = ["first"]
command = "stamp 0"
[steps.last]
once = true
needs = ["train:all"]
command = "stamp 0"
""")  # fmt: skip
    assert home.wait() == 0
    order = [line[5] for line in home.stamps.lines()]
    assert order[:2] == ["first"] * 2 and order[-2:] == ["last"] * 2 and order.count("train") == 4


def test_retries_happen_in_the_task_and_a_failure_skips_what_needs_it(slurm, home):
    submit(home, """
name = "fails"
[grid]
x = [0, 3]
[steps.train]
command = "stamp 0 {x}"
retries = {max = 2, delay = "0s"}
[steps.evaluate]
needs = ["train"]
command = "stamp 0"
""")  # fmt: skip
    assert home.wait() == 1
    jobs = home.ps()
    assert {name: job["state"] for name, job in jobs.items()} == {
        "00-x=0/train": "done", "01-x=3/train": "failed", "00-x=0/evaluate": "done", "01-x=3/evaluate": "skipped",
    }  # fmt: skip
    assert jobs["01-x=3/train"]["attempt"] == 3 and jobs["01-x=3/train"]["exit"] == 3
    assert "train (job 2) ended as failed" in jobs["01-x=3/evaluate"]["reason"]
    assert os.path.exists(f"{home.work}/runs/fails/01-x=3/train/attempt.2.json")
    assert len(slurm.queue()) == 4, "retries are no jobs of Slurm's"
    gone(slurm)


@long
def test_retry_hands_over_what_failed_and_what_needs_it(slurm, home):
    home.file("code", "4")
    submit(home, """
name = "again"
[steps.train]
shell = "stamp 0 $(cat code)"
[steps.evaluate]
needs = ["train"]
command = "stamp 0"
""")  # fmt: skip
    assert home.wait() == 1
    home.file("code", "0")
    home.run("retry", "again", "--failed")
    assert home.wait() == 0
    assert {name.split("/")[1]: job["attempt"] for name, job in home.ps().items()} == {"train": 2, "evaluate": 1}


def test_cancel_ends_what_runs_and_takes_back_what_waits(slurm, home):
    home.close_gate()
    submit(home, """
name = "long"
[grid]
x = [1, 2]
[steps.train]
command = "stamp 0"
[steps.evaluate]
needs = ["train"]
command = "stamp 0"
""")  # fmt: skip
    home.until_running(2)
    wait_until(lambda: list(home.states().values()).count("running") == 2, "both running")
    why = home.run("why", "1").stdout
    assert "Slurm job" in why and "n0" in why, why
    home.run("cancel", "1")
    wait_until(lambda: home.ps()["00-x=1/train"]["state"] == "cancelled", "its end")
    assert home.ps()["00-x=1/evaluate"]["state"] == "skipped"
    assert home.ps()["01-x=2/train"]["state"] == "running"
    home.run("cancel", "long")
    home.wait()
    assert set(home.states().values()) <= {"cancelled", "skipped"}
    gone(slurm)
    assert home.stamps.count("start") == 2


@long
def test_what_is_held_leaves_the_queue_of_slurm_and_comes_back(slurm, home):
    home.close_gate()
    submit(home, """
name = "held"
[steps.train]
command = "stamp 0"
[steps.evaluate]
needs = ["train"]
command = "stamp 0"
""")  # fmt: skip
    home.until_running()
    wait_until(lambda: len(slurm.open()) == 2, "both in Slurm's queue")
    home.run("hold", "held/*/evaluate")
    wait_until(lambda: len(slurm.open()) == 1, "one of them")
    home.open_gate()
    wait_until(lambda: "done" in home.states().values(), "the end of the first")
    assert "held" in home.states().values()
    home.run("release", "held/*/evaluate")
    assert home.wait() == 0
    assert set(home.states().values()) == {"done"}


@long
def test_scancel_from_outside_cancels(slurm, home):
    home.close_gate()
    submit(home, """
name = "outside"
[steps.train]
command = "stamp 0"
retries = 2
[steps.evaluate]
needs = ["train"]
command = "stamp 0"
""")  # fmt: skip
    home.until_running()
    wait_until(lambda: "running" in home.states().values(), "a running job")
    (running,) = (task for task, state in slurm.queue().items() if state == "RUNNING")
    slurm.run("scancel", running)
    home.wait()
    jobs = {name.split("/")[1]: job for name, job in home.ps().items()}
    assert jobs["train"]["state"] == "cancelled" and "in Slurm" in jobs["train"]["reason"]
    assert jobs["evaluate"]["state"] in ("skipped", "cancelled")
    assert home.stamps.count("start") == 1
    gone(slurm)


@pytest.mark.parametrize("moment", ["queued", "running", "ended"])
def test_a_coordinator_that_is_killed_loses_nothing(slurm, home, moment):
    home.close_gate()
    submit(home, TWO_STEPS)
    if moment == "queued":
        home.kill_coordinator()
    home.until_running(3)
    if moment == "running":
        home.kill_coordinator()
    if moment == "ended":
        home.kill_coordinator()
        home.open_gate()
        gone(slurm)
    home.open_gate()
    home.run("ps")
    assert home.wait() == 0
    assert set(home.states().values()) == {"done"}
    assert home.stamps.count("start") == 6, "each of them ran once"
    assert len(slurm.queue()) == 6


@long
def test_without_a_controller_jobs_wait_and_why_says_so(new_slurm, home):
    slurm = new_slurm()
    home.env.update(slurm.env)
    slurm.kill_controller()
    submit(home, TWO_STEPS)
    wait_until(lambda: "doesn't respond" in home.run("why", "1").stdout, "words about Slurm")
    slurm.start_controller()
    assert home.wait() == 0
    assert home.stamps.count("start") == 6
    home.stop()


def test_a_controller_that_is_started_anew_keeps_what_runs(new_slurm, home):
    slurm = new_slurm()
    home.env.update(slurm.env)
    home.close_gate()
    submit(home, TWO_STEPS)
    home.until_running(3)
    slurm.end("slurmctld.pid", signal.SIGTERM)
    home.open_gate()
    slurm.start_controller()
    assert home.wait() == 0
    assert home.stamps.count("start") == 6
    home.stop()


def test_what_is_this_machines_is_refused_for_a_cluster(home):
    text = home.file("s.toml", "[limits]\nlicense = 1\n[steps.train]\ncommand = 'true'\nuses = ['license']\n")
    assert "Slurm chooses" in home.run("run", text, "--on", "slurm", "--lanes", 2, code=2).stderr
    assert "Slurm chooses" in home.run("run", text, "--on", "slurm", "--devices", 0, code=2).stderr
    assert "`uses` counts jobs on this machine" in home.run("run", text, "--on", "slurm", code=2).stderr
    home.file("s.toml", "[steps.train]\ncommand = 'true'\nweight = 2\n")
    assert "Slurm has its own fair-share rules" in home.run("run", text, "--on", "slurm", code=2).stderr
    assert home.states() == {}


def test_without_slurm_jobs_wait_and_why_names_what_is_missing(home):
    home.env["PATH"] = home.work
    submit(home, TWO_STEPS)
    wait_until(lambda: "there is no s" in home.run("why", "1").stdout, "words about a program")
    home.run("cancel", "two")
    assert set(home.states().values()) <= {"cancelled", "skipped"}


def test_a_sweep_that_slurm_has_does_not_begin_here(slurm, home):
    home.close_gate()
    submit(home, TWO_STEPS)
    home.until_running(3)
    refused = home.run("submit", home.work + "/sweep.toml", "--lanes", 2, code=2).stderr
    assert "--on slurm" in refused and "pergpu cancel two" in refused
    home.open_gate()
    assert home.wait() == 0
    home.run("run", home.work + "/sweep.toml", "--lanes", 2)
    assert home.stamps.count("start") == 6


def test_results_are_cleaned_with_what_was_handed_over(slurm, home):
    submit(home, TWO_STEPS)
    assert home.wait() == 0
    assert os.listdir(f"{home.work}/runs/two/.slurm")
    home.run("clean", "two", "--results", "--yes")
    assert not os.path.exists(f"{home.work}/runs/two")


def test_a_dry_run_asks_slurm_nothing(home):
    home.env["PATH"] = home.work
    file = home.file("s.toml", TWO_STEPS)
    out = home.run("run", file, "--on", "slurm", "--dry-run").stdout
    assert home.states() == {}
    assert "# ARRAY_1: train, 3 jobs in 3 tasks" in out and "# ARRAY_2: evaluate, 3 jobs in 3 tasks" in out
    assert "--dependency=aftercorr:ARRAY_1" in out and out.count("#!/bin/sh") == 2
    # A coordinator says the same, and leaves out what is done.
    home.run("coordinator", "start")
    assert home.run("run", file, "--on", "slurm", "--dry-run").stdout == out
    home.run("run", file, "--lanes", 1)
    home.run("coordinator", "start")
    assert home.json("run", file, "--on", "slurm", "--dry-run")["arrays"] == []
    assert "no job would be submitted to Slurm" in home.run("run", file, "--on", "slurm", "--dry-run").stdout


def test_a_dry_run_shows_the_type_of_gpu_and_how_many_run_at_once(home):
    out = home.run("run", home.file("s.toml", """
[slurm]
lanes = 2
[grid]
x = [1, 2, 3, 4, 5, 6, 7, 8]
[steps.train]
command = "true"
gpus = 1
gpu = "a100"
max_parallel = 4
"""), "--on", "slurm", "--dry-run").stdout  # fmt: skip
    assert "#SBATCH --gres=gpu:a100:2\n" in out, "for both lanes"
    assert "#SBATCH --array=0-7%2\n" in out, "two tasks, two jobs each"


@pytest.mark.parametrize("how", [["submit"], ["run", "--dry-run"]], ids=" ".join)
@pytest.mark.parametrize("gpu", ["*A100*", "a?00", "[ah]100", "A100 80GB"])
def test_a_gpu_that_is_no_name_of_a_type_is_refused_for_a_cluster(home, gpu, how):
    file = home.file("s.toml", f"[steps.train]\ncommand = 'true'\ngpus = 1\ngpu = '{gpu}'\n")
    home.env["PATH"] = home.work
    refused = home.run(*how, file, "--on", "slurm", code=2).stderr
    assert f'step train: gpu = "{gpu}"' in refused and "sinfo -o %G" in refused, refused
    assert home.states() == {}


def test_a_misspelt_place_is_refused_with_the_one_that_is_meant(home):
    refused = home.run("run", home.file("s.toml", TWO_STEPS), "--on", "slrm", code=2).stderr
    assert "slrm" in refused and "slurm" in refused, refused
    assert home.states() == {}


def test_several_jobs_fill_an_allocation(slurm, home):
    submit(home, """
name = "many"
[slurm]
jobs_per_allocation = 4
lanes = 2
[grid]
x = {from = 1, to = 8, n = 8}
[steps.train]
shell = "stamp 0.1 $([ $PERGPU_INDEX = 5 ] && echo 1)"
[steps.evaluate]
needs = ["train"]
command = "stamp 0"
""".replace("$PERGPU_INDEX", "$PERGPU_PARAM_X"))  # fmt: skip
    assert home.wait() == 1
    states = list(home.states().values())
    assert states.count("done") == 14 and states.count("failed") == 1 and states.count("skipped") == 1
    assert sorted(slurm.queue()) and len(slurm.queue()) == 4, "two allocations for each step"
    assert home.stamps.most_at_once() <= 4


def test_what_the_step_asks_for_is_what_slurm_is_asked_for(slurm, home):
    home.close_gate()
    submit(home, """
name = "asks"
[slurm]
partition = "p"
[defaults.slurm]
extra = ["--mail-type=NONE"]
[steps.train]
command = "stamp 0"
cpus = 3
memory = "100MiB"
timeout = "10m"
slurm = { time = "1h", extra = ["--exclusive"] }
""")  # fmt: skip
    home.until_running()
    (task,) = slurm.open()
    told = slurm.run("scontrol", "show", "job", task)
    assert "Partition=p" in told and "TimeLimit=01:00:00" in told and "CPUs/Task=3" in told, told
    assert "MinMemoryNode=100M" in told and "OverSubscribe=NO" in told, told
    home.open_gate()
    assert home.wait() == 0


def test_a_job_has_the_gpu_that_slurm_gave_it(slurm, home):
    home.close_gate()
    submit(home, """
name = "gpus"
[grid]
x = [1, 2, 3]
[steps.train]
command = "stamp 0"
gpus = 1
""")  # fmt: skip
    home.until_running(3)
    seen = [line[4] for line in home.stamps.lines()]
    given = [slurm.run("scontrol", "show", "job", "-d", task) for task in slurm.open()]
    assert sorted(seen) == ["0", "1", "2"] and sorted(text.split("(IDX:")[1][0] for text in given) == sorted(seen)
    home.open_gate()
    assert home.wait() == 0


def in_the_place_of(home, program, text):
    """A program of this name is found before the real one, which is $REAL in its text."""
    home.file(f"bin/{program}", f"#!/bin/sh\nREAL={shutil.which(program)}\n{text}", mode=0o755)
    home.env["PATH"] = f"{home.work}/bin:{home.env['PATH']}"


def test_an_answer_of_sbatch_that_is_lost_submits_nothing_twice(slurm, home):
    in_the_place_of(home, "sbatch", '''
$REAL "$@" > /dev/null
echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2
exit 1
''')
    submit(home, TWO_STEPS)
    assert home.wait() == 0
    assert home.stamps.count("start") == 6 and len(slurm.queue()) == 6


@long
def test_a_submit_that_is_not_taken_is_tried_again(slurm, home):
    in_the_place_of(home, "sbatch", f'''
if [ ! -e {home.work}/open ]; then
  echo "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)" >&2
  exit 1
fi
exec $REAL "$@"
''')
    submit(home, TWO_STEPS)
    wait_until(lambda: "Unable to contact" in home.run("why", "1").stdout, "the words of sbatch")
    assert set(home.states().values()) == {"queued"}
    home.file("open", "")
    assert home.wait() == 0
    assert home.stamps.count("start") == 6


def test_what_slurm_refuses_for_good_is_held_with_its_words(slurm, home):
    submit(home, TWO_STEPS.replace("[grid]", "[slurm]\npartition = 'nobody'\n[grid]"))
    wait_until(lambda: home.ps()["00-x=1/train"]["state"] == "held", "its being held")
    assert "invalid partition" in home.ps()["00-x=1/train"]["reason"]
    home.run("cancel", "two")


@long
def test_a_drained_node_is_a_reason_to_wait(new_slurm, home):
    slurm = new_slurm()
    home.env.update(slurm.env)
    slurm.run("scontrol", "update", "NodeName=n0", "State=DRAIN", "Reason=test")
    submit(home, TWO_STEPS)
    wait_until(lambda: "down, drained or reserved" in home.run("why", "1").stdout, "words about the node")
    slurm.run("scontrol", "update", "NodeName=n0", "State=RESUME")
    assert home.wait() == 0
    home.stop()


def test_more_memory_than_asked_for_is_told_as_here(slurm, home):
    submit(home, """
name = "memory"
[steps.train]
memory = "60MiB"
command = ["/usr/bin/python3", "-c", "x = b'x' * (300 << 20); input()"]
""")  # fmt: skip
    assert home.wait() == 1
    job = home.only()
    assert job["state"] == "failed" and job["class"] == "oom-host", job


def test_a_name_with_odd_characters_comes_through(slurm, home):
    submit(home, """
name = "odd"
runs = [{ text = "a 'b' \\"c\\" $HOME %d 日本" }]
[steps.train]
shell = 'printf %s "$PERGPU_PARAM_TEXT"; stamp 0'
""")  # fmt: skip
    assert home.wait() == 0
    assert home.run("logs", "1").stdout.startswith("a 'b' \"c\" $HOME %d 日本")


@long
def test_what_slurm_has_forgotten_is_asked_of_its_accounting(slurm, home):
    in_the_place_of(home, "scontrol", "$REAL \"$@\" | sed 's/accounting_storage.none/accounting_storage\\/slurmdbd/'")
    in_the_place_of(home, "squeue", f"[ -e {home.work}/forgotten ] || exec $REAL \"$@\"")
    home.script("bin/sacct", f"#!/bin/sh\necho \"$@\" >> {home.work}/asked\ncat {home.work}/known\n")
    home.close_gate()
    submit(home, """
name = "forgotten"
[steps.train]
command = "stamp 0"
""")  # fmt: skip
    home.until_running()
    wait_until(lambda: home.only()["state"] == "running", "a running job")
    (task,) = slurm.open()
    home.file("known", f"{task}|TIMEOUT|0:15|n0\n")
    home.file("forgotten", "")
    slurm.run("scancel", task)
    home.wait()
    job = home.only()
    assert job["state"] == "timeout" and "time limit in Slurm" in job["reason"], job
    assert f"--jobs={task.split('_')[0]}" in read(home.work + "/asked")


# What takes minutes, because Slurm counts in them.


@long
def test_a_coordinator_killed_at_any_moment_submits_nothing_twice(slurm, home):
    """200 kills over sweeps of 12 jobs of a second each."""
    kills = 0
    chance = random.Random(7)
    while kills < 200:
        before = home.stamps.count("start")
        name = f"kills{kills}"
        submit(home, f"""
name = "{name}"
[grid]
x = [1, 2, 3, 4, 5, 6]
[steps.train]
command = "stamp 1"
[steps.evaluate]
needs = ["train"]
command = "stamp 1"
""")  # fmt: skip
        while not set(home.states(name).values()) <= {"done", "failed", "lost", "cancelled", "skipped", "held"}:
            time.sleep(chance.random() * 0.6)
            home.kill_coordinator()
            kills += 1
            home.run("ps")
        assert set(home.states(name).values()) == {"done"}, home.run("ps", "-a", name).stdout
        assert home.stamps.count("start") == before + 12, "each of them ran once"
