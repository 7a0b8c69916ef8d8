"""The disk of the results is full, without inodes or read-only while jobs wait, and is well again
later: each job is done, once, and none was charged for it."""
import contextlib
import os
import subprocess

import pytest
from harness import LONG, alive, fill, grid, read, wait_until

COUNT = 300 if LONG else 60


class Disk:
    """A file system of its own for the results."""

    def __init__(self, home):
        self.home = home
        self.path = home.root + "/disk"
        os.mkdir(self.path)
        self.mount("tmpfs", "-o", "size=8m,nr_inodes=4000,mode=755")

    def mount(self, kind, *options):
        command = ["mount", "-t", kind, *options, "none", self.path]
        if os.getuid() != 0 or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("cannot mount a small file system here")

    def fill(self):
        fill(self.path)

    def take_inodes(self):
        os.mkdir(self.path + "/filler")
        try:
            for i in range(4000):
                open(f"{self.path}/filler/{i}", "w").close()
        except OSError:
            pass

    def free(self):
        subprocess.run(["rm", "-r", self.path + "/filler"], check=True)

    def read_only(self, is_so):
        """Not while a file is open for writing: jobs have their logs."""
        command = ["mount", "-o", "remount," + ("ro" if is_so else "rw"), self.path]
        if is_so:
            self.home.run("hold", "train")
        wait_until(lambda: not subprocess.run(command, capture_output=True).returncode, "the remount")
        if is_so:
            self.home.run("release", "train")

    def close(self):
        self.home.stop()
        subprocess.run(["umount", "-l", self.path], check=True)


@pytest.fixture
def disk(home):
    its = Disk(home)
    yield its
    its.close()


TROUBLES = {
    "full": (Disk.fill, Disk.free, "No space left on device"),
    "without inodes": (Disk.take_inodes, Disk.free, "No space left on device"),
    "read-only": (lambda disk: disk.read_only(True), lambda disk: disk.read_only(False), "Read-only file system"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_each_job_is_done_once_and_none_is_charged(home, disk, trouble):
    begin, heal, words = TROUBLES[trouble]
    # What a job tells goes elsewhere: those that run meanwhile don't fail by themselves.
    text = grid("train", COUNT, 'shell = "echo start $PERGPU_JOB 1 $$ >>$STAMPS; sleep 0.02"\nretries = 2')
    home.submit(text, "--lanes", 3, "--out", disk.path + "/out", name="train.toml")
    wait_until(lambda: home.stamps.count("start") >= 5, "some jobs")
    begin(disk)
    queued = str(COUNT)
    wait_until(lambda: words in home.run("why", queued).stdout, "words of it")
    why = home.run("why", queued).stdout
    assert disk.path + "/out" in why and "since" in why and "tries again by itself" in why, why
    home.kill_coordinator()
    home.json("ps")  # starts another one
    wait_until(lambda: words in home.run("why", queued).stdout, "words of it after a restart")
    started = home.stamps.count("start")
    assert started < COUNT
    heal(disk)
    assert home.wait("train") == 0
    assert sorted(home.stamps.of("start")) == list(range(1, COUNT + 1))
    assert set(home.states("train").values()) == {"done"}
    jobs = home.ps("train").values()
    assert {job["retries_left"] for job in jobs} == {2}
    assert sum(job["attempt"] for job in jobs) - COUNT < 20, "one start at a time tries"


def test_a_disk_without_room_starts_no_retry_that_could_not_say_a_word(home, disk):
    """Folder and config.json are there from the attempt before: only its log could not be written."""
    home.close_gate()
    text = '[steps.train]\nshell = "flock -s $GATE true; echo said; test $PERGPU_ATTEMPT -gt 1"\nretries = 1\n'
    home.submit(text, "--out", disk.path + "/out", name="train.toml")
    wait_until(lambda: home.only("train")["state"] == "running", "its first attempt")
    disk.fill()
    home.open_gate()
    wait_until(lambda: "No space left" in home.run("why", "train").stdout, "words of it")
    disk.free()
    assert home.wait("train") == 0
    assert "said" in read(disk.path + "/out/train/_once/train/log.txt", "") or home.only("train")["state"] == "done"


def test_a_home_without_room_or_inodes_fails_no_job(home):
    """The store, and the sockets of keepers, lie there."""
    path = home.path
    command = ["mount", "-t", "tmpfs", "-o", "size=8m,nr_inodes=200,mode=700", "none", path]
    if os.getuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("cannot mount a small file system here")
    try:
        text = grid("train", COUNT, 'shell = "echo start $PERGPU_JOB 1 $$ >>$STAMPS; sleep 0.02"\nretries = 0')
        home.submit(text, "--lanes", 2, name="train.toml")
        wait_until(lambda: home.stamps.count("start") >= 5, "some jobs")
        os.mkdir(path + "/filler")
        try:
            for i in range(200):
                open(f"{path}/filler/{i}", "w").close()
        except OSError:
            pass
        keepers = list(home.keepers())
        for pid in keepers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)  # others can hardly be started now: only where a socket's inode is free again
        wait_until(lambda: not any(map(alive, keepers)), "the ends of the keepers")
        subprocess.run(["rm", "-r", path + "/filler"], check=True)
        assert home.wait("train") == 0
        assert set(home.states("train").values()) == {"done"}
        assert set(home.stamps.of("start")) == set(range(1, COUNT + 1))
    finally:
        home.stop()
        subprocess.run(["umount", "-l", path], check=True)
