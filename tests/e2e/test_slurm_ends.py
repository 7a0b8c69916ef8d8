"""How tasks end on a real Slurm when somebody or something ends them: their time, the controller, a kill, a node."""
import json
import os
import signal

import pytest
from harness import LONG, read, wait_until
from test_slurm import gone, submit

pytestmark = pytest.mark.skipif(not LONG, reason="Slurm counts in minutes: PERGPU_LONG=1")


def test_the_time_limit_of_an_allocation_is_a_timeout(slurm, home):
    home.close_gate()
    submit(home, """
name = "limit"
[slurm]
time = "1m"
[steps.train]
command = "stamp 0"
timeout = "1h"
""")  # fmt: skip
    home.until_running()
    wait_until(lambda: home.only()["state"] == "timeout", "its end", 180)
    words = "stopped at the time limit of its allocation"
    assert home.only()["reason"] == words
    assert json.loads(read(home.only()["out"] + "/attempt.json"))["reason"] == words
    assert words in home.run("show", "1").stdout and words in home.run("why", "1").stdout
    gone(slurm)


def test_a_retry_that_finds_no_time_left_waits_for_the_tasks_next_life(slurm, home):
    home.close_gate()
    submit(home, """
name = "again"
[slurm]
time = "1m"
[steps.train]
command = "stamp 0"
retries = { max = 1, delay = "0s" }
[steps.evaluate]
needs = ["train"]
command = "stamp 0"
""")  # fmt: skip
    home.until_running()
    wait_until(lambda: "2 minutes" in home.run("why", "1").stdout, "words about the queue", 180)
    home.open_gate()
    home.start("wait").communicate(timeout=400)
    train, evaluate = (next(job for name, job in home.ps().items() if name.endswith(step)) for step in ("train", "evaluate"))
    assert train["state"] == evaluate["state"] == "done" and train["attempt"] == 2 and evaluate["attempt"] == 1
    assert len(slurm.queue()) == 2, "the same two tasks"


def test_a_task_that_slurm_requeues_goes_on_at_no_charge(slurm, home):
    home.close_gate()
    submit(home, """
name = "requeued"
[steps.train]
command = "stamp 0"
""")  # fmt: skip
    home.until_running()
    (task,) = slurm.open()
    slurm.run("scontrol", "requeue", task)
    try:
        wait_until(lambda: "2 minutes" in home.run("why", "1").stdout, "words about it")
    except AssertionError as error:
        raise AssertionError(home.run("show", "1").stdout + slurm.run("squeue", "--states=all")) from error
    assert home.only()["state"] == "queued"
    home.open_gate()
    assert home.wait() == 0
    job = home.only()
    assert job["attempt"] == 2 and job["state"] == "done"
    assert home.stamps.count("start") == 2
    assert "the cluster ends the allocation" in home.run("show", "1").stdout, "what attempt 1 became"


def test_a_task_that_is_killed_is_lost_and_its_record_says_so(slurm, home):
    home.close_gate()
    os.mkdir(home.root + "/t")
    home.env["TMPDIR"] = home.root + "/t"  # what a killed task leaves behind goes with the home
    submit(home, """
name = "killed"
[steps.train]
command = "stamp 0"
rerun = false
""", umask=0o077)  # fmt: skip
    home.until_running()
    wait_until(lambda: home.only()["state"] == "running", "a running job")
    (task,) = home.processes("slurm-task")
    os.kill(task, signal.SIGKILL)
    home.wait()
    assert home.only()["state"] == "lost", home.only()
    record = home.only()["out"] + "/attempt.json"
    wait_until(lambda: json.loads(read(record))["state"] == "lost", "the record")
    assert os.stat(record).st_mode & 0o777 == 0o600


def test_a_node_that_fails_loses_the_attempt_and_no_retry(new_slurm, home):
    slurm = new_slurm()
    home.env.update(slurm.env)
    home.close_gate()
    submit(home, """
name = "node"
[steps.train]
command = "stamp 0"
""")  # fmt: skip
    home.until_running()
    wait_until(lambda: home.only()["state"] == "running", "a running job")
    slurm.run("scontrol", "update", "NodeName=n0", "State=DOWN", "Reason=test")
    wait_until(lambda: home.only()["state"] == "queued", "the job in the queue")
    slurm.run("scontrol", "update", "NodeName=n0", "State=RESUME", check=False)  # it may be back by itself
    home.open_gate()
    process = home.start("wait")
    process.communicate(timeout=300)
    job = home.only()
    assert job["state"] == "done" and job["attempt"] == 2, job
    home.stop()
