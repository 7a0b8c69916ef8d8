"""The main path on kernels that lack newer calls: 4.18 (RHEL 8), 5.4 (Ubuntu 20.04), 5.10 (Debian 11)."""
import os
import signal
import subprocess

import pytest

from harness import PERGPU, alive, grid, read, wait_until
from test_share_meeting import jobs  # noqa: F401: a fixture

OLD_KERNEL = os.path.join(os.path.dirname(PERGPU), "tests/kernel/old_kernel")
NO_FILTERS = 77  # its exit code where seccomp is forbidden
STUBBORN = "#!/bin/sh\ntrap '' TERM\nsetsid sleep 1000 &\nexec stamp\n"
EAT = "import time\nx = bytearray(200 << 20)\ntime.sleep(1000)\n"


@pytest.fixture(params=["4.18", "5.4", "5.10"])
def version(request):
    if not os.path.exists(OLD_KERNEL):
        pytest.skip("tests/kernel/old_kernel is not built")
    if subprocess.run([OLD_KERNEL, request.param, "true"]).returncode == NO_FILTERS:
        pytest.skip("no filter can be installed here")
    return request.param


@pytest.fixture
def old(home, version):
    """A home whose programs, and all jobs, run as on that kernel."""
    home.program = home.script("old-pergpu", f'#!/bin/sh\nexec {OLD_KERNEL} {version} {PERGPU} "$@"\n')
    return home


def test_a_sweep_is_done_and_the_coordinator_leaves_when_told_to(old):
    steps = '[steps.train]\nshell = "echo trained >$PERGPU_OUT/model"\noutputs = ["{out}/model"]\n'
    steps += '[steps.evaluate]\nneeds = ["train"]\ncommand = ["cat", "{train.out}/model"]\n'
    done = old.run("run", old.file("sweep.toml", "[grid]\ni = [1, 2, 3]\n" + steps), "--lanes", 3)
    assert "6 done" in done.stdout
    assert read(old.ps("sweep/0/evaluate").popitem()[1]["out"] + "/log.txt") == "trained\n"
    old.run("coordinator", "stop")
    assert not old.coordinator() and not old.keepers()


def test_a_cancelled_job_is_ended_with_all_that_it_started(old):
    old.script("stubborn", STUBBORN)
    old.close_gate()
    old.submit('[steps.a]\ngrace = "100ms"\ncommand = ["stubborn"]\n')
    old.until_running()
    (grandchild,) = wait_until(lambda: old.processes("sleep 1000"), "the grandchild")
    old.run("cancel", "@")
    assert old.wait() == 1 and old.only()["state"] == "cancelled"
    assert not alive(grandchild) and old.stamps.count("end") == 0


def test_the_end_of_a_keeper_is_noticed_and_its_job_runs_again(old):
    old.script("tree", "#!/bin/sh\n[ $PERGPU_ATTEMPT = 2 ] || setsid sleep 1000 &\nexec stamp\n")
    old.close_gate()
    old.submit('[steps.a]\ncommand = ["tree"]\n', "--lanes", 1)
    old.until_running()
    (grandchild,) = wait_until(lambda: old.processes("sleep 1000"), "the grandchild")
    os.kill(old.keepers()[0], signal.SIGKILL)
    old.until_running(2)
    assert not alive(grandchild) and old.stamps.count("end") == 0
    old.open_gate()
    assert old.wait() == 0 and old.only()["attempt"] == 2


def test_what_is_killed_at_once_is_lost_and_runs_again(old):
    old.close_gate()
    old.submit(grid("train", 3, 'command = ["stamp"]'), "--lanes", 2)
    old.until_running(2)
    first = old.stamps.of("start", 3)
    for pid in (old.coordinator(), *old.keepers()):
        os.kill(pid, signal.SIGKILL)
    old.run("ps")  # starts the next coordinator
    old.until_running(4)
    assert not any(alive(pid) for pid in first)
    old.open_gate()
    assert old.wait() == 0
    assert sorted(job["attempt"] for job in old.ps().values()) == [1, 2, 2]


def test_limits_of_time_and_memory_hold(old):
    old.file("eat.py", EAT)
    text = '[steps.long]\ntimeout = "100ms"\ncommand = ["sleep", "1000"]\n'
    text += '[steps.big]\nmemory = "100MiB"\ncommand = ["python3", "-S", "eat.py"]\n'
    old.submit(text, "--lanes", 2)
    assert old.wait() == 1
    classes = {job["step"]: job["class"] for job in old.ps().values()}
    assert classes == {"long": "timeout", "big": "oom-host"}


def test_jobs_have_one_copy_of_what_they_share(old, jobs):  # noqa: F811
    old.close_gate()
    jobs.submit("tokens(); gate()")
    jobs.until_told("has", count=2)
    assert len(jobs.told("loads")) == 1
    old.open_gate()
    assert old.wait() == 0, jobs.logs()


def test_doctor_names_the_calls_that_are_missing(old, version):
    findings = old.json("doctor", code=None)["findings"]
    told = " ".join(finding["what"] for finding in findings if finding["check"] == "kernel")
    calls = {
        "pidfd_send_signal": ["4.18"],
        "pidfd_open": ["4.18"],
        "openat2": ["4.18", "5.4"],
        "clone3": ["4.18", "5.4"],
        "close_range": ["4.18", "5.4", "5.10"],
        "futex_waitv": ["4.18", "5.4", "5.10"],
    }
    for call, missing in calls.items():
        assert (call in told) == (version in missing), (call, told)
