"""`pergpu coordinator stop` tells facts, and sticks."""
import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess

import pytest

from harness import DEADLINE, LONG, alive, fill, wait_until
from schemas import check
from test_stopped_keepers import STUBBORN, TRACER, begin, sweep

STOPPED = "the coordinator was stopped"


def nobody_revives(home):
    """What a keeper starts that has lost its coordinator is at its end when it must not serve; so is one
    that a keeper may have started at the same moment."""
    home.run("coordinator", "run", code=0)
    wait_until(lambda: home.coordinator() is None, "its end")


def test_stop_returns_when_the_process_is_gone_and_nobody_but_a_command_starts_another(home):
    (pid,) = begin(home, STUBBORN, 1, grace='"0s"')
    first = home.coordinator()
    said = home.run("coordinator", "stop").stderr
    assert not alive(first) and alive(pid)
    assert "running jobs continue" in said
    nobody_revives(home)
    assert home.run("coordinator", "stop").stderr.startswith("no coordinator is running, but jobs of the last one may be")
    assert home.only()["state"] == "running"  # asked for by a command
    home.kill_coordinator()
    wait_until(home.coordinator, "one that its keeper starts")  # nobody has stopped that


def test_a_stop_outlives_the_coordinator_that_was_told_to_stop(home):
    """It is killed before its keepers know."""
    (pid,) = begin(home, STUBBORN, 1, grace='"2s"')
    first = home.coordinator()
    stop = home.start("coordinator", "stop", "--kill")
    wait_until(lambda: home.stamps.count("term"), "the job's SIGTERM")
    os.kill(first, signal.SIGKILL)
    said = stop.communicate()[1]
    assert stop.returncode == 1 and "ended before its jobs" in said, said
    nobody_revives(home)
    home.run("coordinator", "stop", "--kill")  # starts one, for there are keepers
    assert not alive(pid) and home.coordinator() is None
    assert home.only()["state"] == "cancelled"


def test_stop_with_kill_returns_when_the_jobs_are_gone(home):
    pids = begin(home, STUBBORN, 3, grace='"1s"')
    first = home.coordinator()
    said = home.run("coordinator", "stop", "--kill").stderr
    assert not alive(first) and not any(map(alive, pids))
    assert "waiting for 3 jobs to end" in said and "3 jobs ended" in said
    assert home.stamps.count("term") == 3  # they had their grace
    assert set(home.states().values()) == {"cancelled"}


def test_a_stop_without_kill_does_not_undo_one_with_it(home):
    (pid,) = begin(home, STUBBORN, 1, grace='"1s"')
    first = home.start("coordinator", "stop", "--kill")
    wait_until(lambda: home.stamps.count("term"), "the job's SIGTERM")
    assert "1 job ended" in home.run("coordinator", "stop").stderr
    assert not alive(pid)
    assert first.wait() == 0


def test_stop_ends_what_an_earlier_one_has_left(home):
    (pid,) = begin(home, STUBBORN, 1, grace='"0s"')
    home.run("coordinator", "stop")
    home.run("coordinator", "stop", "--kill")
    assert not alive(pid) and home.only()["state"] == "cancelled"


def test_who_watches_starts_none_after_a_stop_and_follows_the_next_one(home):
    home.script("job", STUBBORN)
    watcher = home.start("run", home.file("sweep.toml", sweep("job", 1, grace='"0s"')))
    home.until_running()
    before = home.json("coordinator", "status")["clients"]
    waiter = home.start("wait", "@")
    wait_until(lambda: home.json("coordinator", "status")["clients"] > before, "the waiter")
    home.run("coordinator", "stop")
    out, said = waiter.communicate()
    assert waiter.returncode == 3 and STOPPED in said
    for line in watcher.stderr:
        if STOPPED in line:
            break
    assert home.coordinator() is None
    home.run("cancel", "@")
    assert watcher.wait() == 1
    assert home.coordinator() is not None


def test_a_crowd_pushes_nobody_out_who_waits_for_the_end(home):
    status = home.json("coordinator", "start")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    (pid,) = begin(home, STUBBORN, 1, grace='"60s"')
    stop = home.start("coordinator", "stop", "--kill")
    wait_until(lambda: home.stamps.count("term"), "the job's SIGTERM")
    with contextlib.ExitStack() as crowd:
        for _ in range(1100):  # of at most 1,024
            one = crowd.enter_context(socket.socket(socket.AF_UNIX))
            one.settimeout(DEADLINE)
            one.connect(status["socket"])
            one.sendall(b'{"hello":1,"version":"0.1.0"}\n')
            assert one.recv(4096)
        home.run("cancel", "--kill", "@")
        said = stop.communicate(timeout=DEADLINE)[1]
    assert stop.returncode == 0 and "1 job ended" in said
    assert not alive(pid)


# Answers `stop` with what it was given and breaks the connection; it ends, or lives on.
STAND_IN = """
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
print("there", flush=True)
client, _ = server.accept()
lines = client.makefile("r")
for data in ({"protocol": 1, "version": "0.1.0", "pid": os.getpid()}, json.loads(sys.argv[2])):
    lines.readline()
    client.sendall(json.dumps({"ok": True, "data": data}).encode() + b"\\n")
client.shutdown(socket.SHUT_RDWR)
if sys.argv[3] == "lives":
    sys.stdin.read()
"""


@pytest.mark.parametrize(
    "reply, then, code, words",
    [
        ({"pid": 1, "kill": True, "jobs": 1}, "lives", 1, "is still there, but its connection broke"),
        ({"pid": 1, "kill": True, "jobs": 1}, "ends", 1, "ended before its jobs"),
        ({}, "ends", 0, "doesn't report which jobs it ended"),
    ],
)
def test_what_stop_says_when_the_connection_ends_without_a_word(home, reply, then, code, words):
    os.mkdir(home.path + "/run", 0o700)
    command = ["/usr/bin/python3", "-c", STAND_IN, home.path + "/run/coordinator.sock", json.dumps(reply), then]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout.readline()
        assert words in home.run("coordinator", "stop", "--kill", code=code).stderr
        server.stdin.close()


@pytest.fixture
def small_disk(home):
    """The home has a small file system of its own."""
    if os.getuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "none", home.path]).returncode:
        pytest.skip("cannot mount a small file system here")
    yield home
    home.stop()
    subprocess.run(["umount", "-l", home.path], check=True)


def test_a_stop_sticks_although_the_home_is_full(small_disk):
    home = small_disk
    begin(home, STUBBORN, 1, grace='"0s"')
    before = home.json("coordinator", "status")["clients"]
    waiter = home.start("wait", "@")
    wait_until(lambda: home.json("coordinator", "status")["clients"] > before, "the waiter")
    fill(home.path)
    home.run("coordinator", "stop")
    try:
        assert STOPPED in waiter.communicate(timeout=DEADLINE)[1] and waiter.returncode == 3
        nobody_revives(home)
    finally:
        os.remove(home.path + "/filler")
        home.run("coordinator", "stop", "--kill")


def test_a_stop_that_cannot_be_recorded_says_so(home):
    os.makedirs(home.path + "/coordinator-stopped/in-its-place")
    (pid,) = begin(home, STUBBORN, 1, grace='"0s"')
    first = home.coordinator()
    said = home.run("coordinator", "stop", code=1).stderr
    assert "the coordinator has stopped" in said and "can't record that the coordinator was stopped" in said
    assert not alive(first) and alive(pid)
    told = check("coordinator-stop", json.loads(home.run("coordinator", "stop", "--json", code=1).stdout))
    assert told["stopped"] and told["pid"] is None and "can't record" in told["why"]
    home.run("coordinator", "stop", "--kill", code=1)
    assert not alive(pid)
    shutil.rmtree(home.path + "/coordinator-stopped")
    assert home.run("coordinator", "stop").stderr == "no coordinator is running\n"


def test_what_json_says_of_a_stop(home):
    def stopped(*args):
        return check("coordinator-stop", json.loads(home.run("coordinator", "stop", "--json", *args).stdout))

    none = stopped()
    assert none["stopped"] and none["pid"] is None and none["left"] == []
    begin(home, STUBBORN, 2, grace='"0s"')
    first = home.coordinator()
    one = stopped()
    assert one["stopped"] and one["pid"] == first and one["running"] == 2
    assert stopped("--kill")["running"] == 0


@pytest.mark.skipif(not LONG, reason="takes 20 s; set PERGPU_LONG=1")
def test_stop_says_what_is_left(home):
    """A debugger keeps the job's process: it has been killed, and cannot be waited for."""
    (pid,) = begin(home, STUBBORN, 1, grace='"0s"')
    tracer = subprocess.Popen(["/usr/bin/python3", "-c", TRACER, str(pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert tracer.stdout.readline()
    try:
        done = home.run("coordinator", "stop", "--kill", code=1)
        assert "1 job did not end" in done.stderr and "is tracing it" in done.stderr
        assert home.coordinator() is not None
    finally:
        tracer.communicate()
    wait_until(lambda: home.coordinator() is None, "its end")
