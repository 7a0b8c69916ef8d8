"""A job ends whatever it does to its keeper: it may be stopped, or not answer."""
import contextlib
import os
import signal
import subprocess
import time

import pytest

from harness import LONG, alive, read, stat_of, wait_until
from test_run_folder import for_good, runtime  # noqa: F401

RUNS = 20 if LONG else 6

# Does not end by SIGTERM.
STUBBORN = """#!/bin/sh
trap 'echo "term $PERGPU_JOB $PERGPU_ATTEMPT $$" >>"$STAMPS"' TERM
echo "start $PERGPU_JOB $PERGPU_ATTEMPT $$" >>"$STAMPS"
while :; do sleep 0.01; done
"""
# The same, and its keeper hardly ever runs.
STOPS_ITS_KEEPER = """#!/bin/sh
trap "" TERM
(while kill -STOP $PPID; do sleep 0.002; done) &
echo "start $PERGPU_JOB $PERGPU_ATTEMPT $$" >>"$STAMPS"
while :; do sleep 0.01; done
"""

# Holds a process as a debugger does until its standard input ends.
TRACER = """
import ctypes, os, sys
pid = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
assert libc.ptrace(0x4206, pid, None, None) == 0, ctypes.get_errno()
assert libc.ptrace(0x4207, pid, None, None) == 0, ctypes.get_errno()
os.waitpid(pid, 0x40000000)
print("there", flush=True)
sys.stdin.read()
"""


def sweep(command, runs, **keys):
    rows = ", ".join(map(str, range(runs)))
    more = "".join(f"{key} = {value}\n" for key, value in keys.items())
    return f'[grid]\nx = [{rows}]\n[steps.main]\ncommand = ["{command}"]\n{more}'


def begin(home, script, runs, **keys):
    """The pids of so many jobs, which run."""
    home.script("job", script)
    home.submit(sweep("job", runs, **keys), "--lanes", runs)
    home.until_running(runs)
    return home.stamps.of("start", 3)


@pytest.mark.parametrize("how", ["timeout", "cancel", "stop"])
def test_a_job_ends_although_it_keeps_its_keeper_stopped(home, how):
    limits = {"timeout": '"2s"'} if how == "timeout" else {}
    pids = begin(home, STOPS_ITS_KEEPER, RUNS, grace='"1s"', **limits)
    asked = time.monotonic()
    if how == "cancel":
        home.run("cancel", "--kill", "*")
    if how == "stop":
        home.run("coordinator", "stop", "--kill")
        assert not any(map(alive, pids))
    wait_until(lambda: not any(map(alive, pids)), "their ends")
    home.wait()
    assert time.monotonic() - asked < 20  # grace and 5 s where there is a core to be had
    assert set(home.states().values()) == {"timeout" if how == "timeout" else "cancelled"}


@contextlib.contextmanager
def held(pid):
    tracer = subprocess.Popen(["/usr/bin/python3", "-c", TRACER, str(pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert tracer.stdout.readline()
    try:
        yield
    finally:
        tracer.communicate()


def test_a_keeper_that_does_not_answer_is_ended_and_why_says_so(home):
    (pid,) = begin(home, STUBBORN, 1, grace='"0s"')
    with held(stat_of(pid)[1]):
        home.run("cancel", "@")
        home.wait()
        assert home.only()["state"] == "cancelled"
        assert "its keeper didn't respond" in home.json("why", "@")["jobs"][0]["why"]
        assert not alive(pid)


def lose_run_folder(home):
    """For good: sockets and records move to <home>/run."""
    for_good(home)
    wait_until(lambda: any(name.endswith(".rec") for name in os.listdir(home.json("coordinator", "status")["home"] + "/run")), "the keeper's files")


def test_a_keeper_that_does_not_answer_is_ended_after_the_run_folder_moved(runtime):  # noqa: F811
    (pid,) = begin(runtime, STUBBORN, 1, grace='"0s"')
    lose_run_folder(runtime)
    with held(stat_of(pid)[1]):
        runtime.run("cancel", "--kill", "@")
        runtime.wait()
        assert runtime.only()["state"] == "cancelled" and not alive(pid)


@pytest.mark.parametrize("how", ["timeout", "cancel", "stop"])
def test_a_stopped_keeper_goes_on_and_its_job_ends_after_the_run_folder_moved(runtime, how):  # noqa: F811
    limits = {"timeout": '"2s"'} if how == "timeout" else {}
    (pid,) = begin(runtime, STUBBORN, 1, grace='"0s"', **limits)
    lose_run_folder(runtime)
    os.kill(stat_of(pid)[1], signal.SIGSTOP)
    runtime.kill_coordinator()
    if how == "cancel":
        runtime.run("cancel", "--kill", "@")
    if how == "stop":
        runtime.run("coordinator", "stop", "--kill")
        assert not alive(pid)
    runtime.wait()
    assert runtime.only()["state"] == ("timeout" if how == "timeout" else "cancelled") and not alive(pid)


def test_a_timeout_holds_although_the_keeper_was_stopped_when_the_coordinator_was_killed(home):
    (pid,) = begin(home, STUBBORN, 1, grace='"0s"', timeout='"1s"')
    keeper = stat_of(pid)[1]
    os.kill(keeper, signal.SIGSTOP)
    home.kill_coordinator()
    assert home.wait() == 1
    assert home.only()["state"] == "timeout" and not alive(pid)
    assert read(f"/proc/{keeper}/stat", "").find(" T ") < 0
