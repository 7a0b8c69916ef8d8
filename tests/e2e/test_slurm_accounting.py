"""What a real slurmdbd tells of tasks that ended while no coordinator lived and that Slurm's queue has forgotten."""
import os
import shutil
import signal

import pytest
from conftest import start_slurm
from harness import LONG, read, wait_until

pytestmark = pytest.mark.skipif(not LONG, reason="Slurm takes its time to forget: PERGPU_LONG=1")

ONE = """
name = "one"
[steps.train]
command = "stamp 0"
"""
TWO = """
name = "two"
[grid]
x = [1, 2]
[steps.train]
command = "true"
[steps.evaluate]
needs = ["train"]
command = "stamp 0"
"""


@pytest.fixture(scope="module")
def slurm_of_module():
    """Forgets what has ended within seconds."""
    cluster = start_slurm(accounting=True, MinJobAge=2)
    yield cluster
    cluster.stop()


@pytest.fixture
def asked(slurm, home):
    """asked() is what sacct was called with, a line each."""
    home.script("sacct", f'#!/bin/sh\necho "$@" >> {home.work}/asked\nexec {shutil.which("sacct")} "$@"\n')
    os.mkdir(f"{home.root}/t")
    home.env["TMPDIR"] = f"{home.root}/t"  # what a killed task leaves behind goes with the home
    home.close_gate()
    return lambda: read(f"{home.work}/asked", "").splitlines()


def submit(home, text):
    home.submit(text, "--on", "slurm")
    home.until_running()
    wait_until(lambda: "running" in home.states().values(), "a running job")


def running(slurm):
    """Slurm's number of the only task that runs."""
    (task,) = (task for task, state in slurm.queue().items() if state == "RUNNING")
    return task


def stop_coordinator(home):
    home.run("coordinator", "stop")
    wait_until(lambda: not home.coordinator(), "its end")


def until_known(slurm, *tasks):
    """Of no others the queue knows."""
    wait_until(lambda: {*slurm.queue()} == {*tasks}, "the queue's forgetting", 120)


@pytest.mark.parametrize("how", [["--signal=KILL", "--full"], []], ids=["killed", "asked"])
def test_a_task_that_scancel_ended_is_cancelled(slurm, home, asked, how):
    submit(home, ONE + "retries = 2")
    task = running(slurm)
    stop_coordinator(home)
    slurm.run("scancel", *how, task)
    until_known(slurm)
    home.wait()
    job = home.only()
    assert job["state"] == "cancelled" and job["reason"] == f"Slurm job {task} was cancelled in Slurm", job
    assert home.stamps.count("start") == 1
    assert f"--jobs={task.split('_')[0]}" in asked()[0]


def test_a_task_that_scancel_took_from_the_queue_is_cancelled(slurm, home, asked):
    submit(home, ONE + '[steps.evaluate]\nneeds = ["train"]\ncommand = "stamp 0"\n')
    wait_until(lambda: len(slurm.open()) == 2, "both in Slurm's queue")
    (waiting,) = {*slurm.open()} - {running(slurm)}
    stop_coordinator(home)
    slurm.run("scancel", waiting)
    home.open_gate()
    until_known(slurm)
    home.wait()
    jobs = {name.split("/")[1]: job for name, job in home.ps().items()}
    assert jobs["train"]["state"] == "done", "it told that itself"
    assert jobs["evaluate"]["state"] == "cancelled", jobs["evaluate"]
    assert jobs["evaluate"]["reason"] == f"Slurm job {waiting} was cancelled in Slurm"
    assert home.stamps.count("start") == 1


def kill_task(slurm, home):
    (pid,) = home.processes("slurm-task")
    os.kill(pid, signal.SIGKILL)
    until_known(slurm)


def fail_nodes(slurm, home):
    slurm.kill_nodes()
    until_known(slurm)
    slurm.start_nodes()


@pytest.mark.parametrize(("happens", "words"), [
    (kill_task, " ended as FAILED, signal 9 without reporting a result"),
    (fail_nodes, ": its node failed"),
], ids=["task", "node"])  # fmt: skip
def test_a_task_that_said_no_word_is_lost(slurm, home, asked, happens, words):
    submit(home, ONE + "rerun = false")
    task = running(slurm)
    stop_coordinator(home)
    happens(slurm, home)
    home.wait()
    job = home.only()
    assert job["state"] == "lost" and f"Slurm job {task}{words}" in job["reason"], job
    assert home.stamps.count("start") == 1
    assert f"--jobs={task.split('_')[0]}" in asked()[0]


def test_a_lost_job_begins_again_and_has_its_retries(slurm, home, asked):
    submit(home, ONE + "retries = 1")
    stop_coordinator(home)
    kill_task(slurm, home)
    home.open_gate()
    assert home.wait() == 0
    job = home.only()
    assert job["state"] == "done" and job["attempt"] == 2 and job["retries_left"] == 1, job
    assert home.stamps.count("start") == 2 and home.stamps.count("end") == 1
    assert asked()


def test_what_slurm_dropped_with_what_it_needed_is_handed_over_anew(slurm, home, asked):
    submit(home, ONE + 'retries = 1\n[steps.evaluate]\nneeds = ["train"]\ncommand = "stamp 0"\n')
    wait_until(lambda: len(slurm.open()) == 2, "both in Slurm's queue")
    stop_coordinator(home)
    kill_task(slurm, home)
    home.open_gate()
    assert home.wait() == 0
    assert {name.split("/")[1]: job["state"] for name, job in home.ps().items()} == dict.fromkeys(
        ("train", "evaluate"), "done")
    assert asked()


def test_what_tasks_have_told_themselves_is_not_asked(slurm, home, asked):
    submit(home, TWO)
    home.until_running(2)
    until_known(slurm, *slurm.open())
    assert sorted(home.states().values()) == ["done"] * 2 + ["running"] * 2
    stop_coordinator(home)
    home.open_gate()
    until_known(slurm)
    assert home.wait() == 0
    assert set(home.states().values()) == {"done"}
    assert asked() == []
