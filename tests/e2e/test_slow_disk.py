"""A disk whose every sync takes seconds (tests/fault/faulty_disk.cc): the coordinator goes on answering,
and what it promises still waits for the disk."""
import os

import pytest

from harness import grid, wait_until

FAULTY_DISK = os.environ.get("FAULTY_DISK", "")
pytestmark = pytest.mark.skipif(not FAULTY_DISK, reason="not built: needs a build without sanitizers")


@pytest.fixture
def slow(home):
    """A running coordinator; from here on each sync takes 5 s: a turn of its loop that waits for one is far
    longer than the limit that harness.py sets."""
    home.control = home.root + "/disk"
    home.env.update(LD_PRELOAD=FAULTY_DISK, FAULTY_DISK=home.control)
    home.run("gpus")
    with open(home.control, "w") as f:
        f.write("delay 5000")
    return home


def test_ps_answers_while_a_submit_waits_for_the_disk(slow):
    submit = slow.start("submit", slow.file("s.toml", grid("train", 2, 'command = ["stamp"]')))
    assert slow.json("ps", "-a")["jobs"] == []
    assert submit.poll() is None  # accepted means durable: not yet
    assert submit.wait(60) == 0
    assert len(slow.json("ps", "-a")["jobs"]) == 2
    assert slow.stamps.count("start") == 0  # nor is the intent
    os.unlink(slow.control)
    assert slow.wait() == 0


def test_a_submit_that_was_answered_is_there_after_a_kill(slow):
    slow.submit(grid("train", 3, 'command = ["stamp"]'))
    slow.kill_coordinator()
    os.unlink(slow.control)
    wait_until(slow.coordinator, "the next coordinator")
    assert slow.wait() == 0 and slow.stamps.count("start") == 3


def test_jobs_that_end_meanwhile_are_recorded_once(slow):
    os.rename(slow.control, slow.control + ".kept")
    slow.close_gate()
    slow.submit(grid("train", 2, 'command = ["sh", "-c", "exec stamp 0 {i}"]'))
    slow.until_running(2)
    os.rename(slow.control + ".kept", slow.control)
    slow.open_gate()
    wait_until(lambda: slow.stamps.count("end") == 2, "the ends")
    assert {job["state"] for job in slow.ps().values()} <= {"running", "done", "failed"}
    slow.kill_coordinator()  # before they are durable, or after
    os.unlink(slow.control)
    assert slow.wait() == 1
    assert sorted(job["exit"] for job in slow.ps().values()) == [0, 1]
    assert sorted(slow.stamps.of("start")) == [1, 2]


def test_a_mount_that_hangs_keeps_no_coordinator(home):
    """Neither the answers to others nor its end wait for the look at a submit's folder."""
    control = home.root + "/disk"
    home.env.update(LD_PRELOAD=FAULTY_DISK, FAULTY_DISK=control)
    home.submit(grid("train", 1, 'command = ["stamp"]', header='name = "s"'))
    assert home.wait() == 0
    del home.env["LD_PRELOAD"]  # of the clients
    with open(control, "w") as f:
        f.write("hang")
    hanging = home.start("submit", home.file("s.toml", grid("train", 1, 'command = ["stamp"]', header='name = "s"')),
                         "--out", home.work + "/dead-mount/runs")  # fmt: skip
    pid = home.coordinator()
    wait_until(lambda: len(os.listdir(f"/proc/{pid}/task")) > 2, "the thread that hangs")
    assert len(home.json("ps", "-a")["jobs"]) == 1 and hanging.poll() is None
    hanging.kill()  # it would ask the next coordinator
    hanging.wait()
    home.run("coordinator", "stop")
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the coordinator")
    os.unlink(control)
    assert len(home.json("ps", "-a")["jobs"]) == 1
