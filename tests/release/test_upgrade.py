"""Installing the new version over an earlier one, a wheel of which PERGPU_OLD_WHEEL names, while jobs run and wait."""
import json
import os
import platform
import signal
import time

import pytest
from conftest import DIST, VERSION, WHEELS, run

OLD = os.environ.get("PERGPU_OLD_WHEEL")
# Runs until it may end, and leaves a line for each time it was started.
JOB = 'echo x >>"$PERGPU_OUT/starts"; until [ -e go ]; do sleep 0.05; done; echo $1 >"$PERGPU_OUT/n"'

pytestmark = [
    pytest.mark.skipif(not OLD, reason="PERGPU_OLD_WHEEL names no wheel of an earlier version"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="for x86-64"),
]


def until(holds, what):
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


@pytest.fixture
def venv(user):
    run("/usr/bin/python3", "-m", "venv", user.home / "venv")
    return user.home / "venv"


def install(venv, wheel):
    run(venv / "bin/pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check", os.path.abspath(wheel))


@pytest.mark.parametrize("coordinator", ["runs", "is-stopped", "is-killed"])
def test_finished_queued_and_running_jobs_are_there_after_an_upgrade(user, venv, coordinator):
    pergpu = venv / "bin/pergpu"

    def status():
        return json.loads(user.run(pergpu, "coordinator", "status", "--json"))

    def states(sweep):
        jobs = json.loads(user.run(pergpu, "ps", "--all", "--json"))["jobs"]
        return [job["state"] for job in sorted(jobs, key=lambda job: job["id"]) if job["sweep"] == sweep]

    install(venv, OLD)
    user.sweep(pergpu, 2)
    user.run(pergpu, "submit", "--lanes", "1", "--name", "later", "-g", "i=1..3", "--", "sh", "-c", JOB, "-", "{i}")
    until(lambda: [*user.home.glob("runs/later/**/starts")], "the first job runs")
    before = status()
    assert before["version"] != VERSION, f"{OLD} is no earlier version"
    if coordinator == "is-stopped":
        user.run(pergpu, "coordinator", "stop")
    install(venv, DIST / WHEELS["x86_64"])
    if coordinator == "is-killed":
        os.kill(before["pid"], signal.SIGKILL)

    assert user.run(pergpu, "--version").startswith(f"pergpu {VERSION} (")
    assert states("s") == ["done"] * 2
    assert states("later") == ["running", "queued", "queued"]
    if coordinator == "runs":
        assert status()["pid"] == before["pid"], "it has work, and stays"
    (user.home / "go").touch()
    user.run(pergpu, "wait", "later", "--timeout", "60s")
    assert states("later") == ["done"] * 3
    assert sorted(path.read_text() for path in user.home.glob("runs/later/**/n")) == ["1\n", "2\n", "3\n"]
    assert [path.read_text() for path in user.home.glob("runs/later/**/starts")] == ["x\n"] * 3

    # Without work, one of an earlier version makes room.
    until(lambda: user.run(pergpu, "coordinator", "start") and status()["version"] == VERSION, "a coordinator of the new version")
    user.sweep(pergpu, 4)
    assert states("s") == ["done"] * 4
