"""The disk of the results is full, without inodes or read-only while jobs wait, and is well again
later: each job is done, once, and none was charged for it."""
import contextlib
import os
import shutil
import subprocess
import sys

import pytest
from harness import LONG, alive, fill, grid, read, wait_until

COUNT = 300 if LONG else 60


class Disk:
    """A small file system of its own, for the results or the home."""

    def __init__(self, home, path, inodes=4000):
        self.home, self.path = home, path
        command = ["mount", "-t", "tmpfs", "-o", f"size=8m,nr_inodes={inodes},mode=700", "none", path]
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


class FailingDisk:
    """A file system of its own (failing_disk.py) whose writes fail by any error."""

    def __init__(self, home, path):
        self.home, self.path = home, path
        self.orders = home.root + "/orders"
        os.makedirs(home.root + "/behind")
        program = os.path.join(os.path.dirname(__file__), "failing_disk.py")
        self.server = subprocess.Popen([sys.executable, program, home.root + "/behind", path, self.orders])
        wait_until(lambda: os.path.ismount(path) or self.server.poll() is not None, "the file system")
        if self.server.poll() is not None:
            pytest.skip("cannot mount a file system of FUSE here")

    def fail(self, error):
        with open(self.orders + ".new", "w") as f:
            f.write(error)
        os.rename(self.orders + ".new", self.orders)

    def heal(self):
        os.remove(self.orders)

    def close(self):
        self.home.stop()
        subprocess.run(["umount", "-l", self.path], check=True)
        self.server.wait()


TROUBLES = {
    "full": (Disk, Disk.fill, Disk.free, "No space left on device"),
    "without inodes": (Disk, Disk.take_inodes, Disk.free, "No space left on device"),
    "read-only": (Disk, lambda disk: disk.read_only(True), lambda disk: disk.read_only(False), "Read-only file system"),
    "failing": (FailingDisk, lambda disk: disk.fail("EIO"), FailingDisk.heal, "Input/output error"),
}


@pytest.fixture
def disk(home, request):
    path = home.root + "/disk"
    os.mkdir(path)
    kind = TROUBLES[request.node.callspec.params["trouble"]][0] if "trouble" in request.fixturenames else Disk
    its = kind(home, path)
    yield its
    its.close()


@pytest.fixture
def disk_that_fails(home):
    path = home.root + "/disk"
    os.mkdir(path)
    its = FailingDisk(home, path)
    yield its
    its.close()


@pytest.mark.parametrize("trouble", TROUBLES)
def test_each_job_is_done_once_and_none_is_charged(home, disk, trouble):
    _, begin, heal, words = TROUBLES[trouble]
    # What a job tells goes elsewhere: those that run meanwhile don't fail by themselves.
    text = grid("train", COUNT, 'shell = "echo start $PERGPU_JOB 1 $$ >>$STAMPS; sleep 0.02"\nretries = 2')
    home.submit(text, "--lanes", 3, "--out", disk.path + "/out", name="train.toml")
    wait_until(lambda: home.stamps.count("start") >= 5, "some jobs")
    begin(disk)
    queued = str(COUNT)
    wait_until(lambda: words in home.run("why", queued).stdout, "words of it")
    why = home.run("why", queued).stdout
    assert disk.path + "/out" in why and "since" in why and "pergpu keeps trying" in why, why
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


def test_a_dead_working_folder_of_one_run_keeps_only_that_run(home, disk_that_fails):
    """Its file server has died (ENOTCONN)."""
    os.mkdir(disk_that_fails.path + "/inside")
    places = home.root + "/places"
    os.mkdir(places)
    for i in range(10):
        os.mkdir(f"{places}/{i}") if i != 2 else os.symlink(disk_that_fails.path + "/inside", places + "/2")
    disk_that_fails.server.kill()
    disk_that_fails.server.wait()
    home.submit(grid("train", 10, f'shell = "true"\ncwd = "{places}/{{i}}"'), "--lanes", 1, name="train.toml")
    wait_until(lambda: list(home.states("train").values()).count("done") == 9, "the other runs")
    (waiting,) = [job for job in home.ps("train").values() if job["state"] != "done"]
    assert waiting["state"] in ("queued", "starting"), waiting
    id = str(waiting["id"])
    wait_until(lambda: "this job can't start: chdir " + places + "/2" in home.run("why", id).stdout, "words of it")
    os.remove(places + "/2")
    os.mkdir(places + "/2")
    assert home.wait("train") == 0
    assert {job["retries_left"] for job in home.ps("train").values()} == {0}


def test_a_sweep_whose_root_was_replaced_keeps_no_other_of_its_disk(home, disk):
    home.close_gate()
    for name in "ab":
        text = grid(name, 20, 'shell = "echo start $PERGPU_JOB 1 $$ >>$STAMPS; flock -s $GATE true"')
        home.submit(text, "--lanes", 1, "--out", f"{disk.path}/{name}", name=name + ".toml")
    home.until_running(2)
    disk.fill()
    home.open_gate()
    for name in "ab":
        wait_until(lambda: "No space left" in home.run("why", name).stdout, "words of both")
    shutil.move(disk.path + "/a", home.root + "/moved")
    os.mkdir(disk.path + "/a")
    disk.free()
    assert home.wait("b") == 0
    assert set(home.states("a").values()) != {"done"}
    os.rmdir(disk.path + "/a")
    shutil.move(home.root + "/moved", disk.path + "/a")


HOME_TROUBLES = {
    "full": (Disk, Disk.fill, Disk.free),
    "without inodes": (lambda home, path: Disk(home, path, 200), Disk.take_inodes, Disk.free),
    "read-only": (FailingDisk, lambda disk: disk.fail("EROFS"), FailingDisk.heal),
    "failing": (FailingDisk, lambda disk: disk.fail("EIO"), FailingDisk.heal),
}


@pytest.mark.parametrize("trouble", HOME_TROUBLES)
def test_a_home_that_cannot_be_written_to_fails_no_job(home, trouble):
    """The store, and the sockets of keepers, lie there."""
    make, begin, heal = HOME_TROUBLES[trouble]
    disk = make(home, home.path)
    try:
        text = grid("train", COUNT, 'shell = "echo start $PERGPU_JOB 1 $$ >>$STAMPS; sleep 0.02"\nretries = 0')
        home.submit(text, "--lanes", 2, name="train.toml")
        wait_until(lambda: home.stamps.count("start") >= 5, "some jobs")
        begin(disk)
        if trouble == "without inodes":  # the store still has its files: only new keepers' sockets find no room
            keepers = list(home.keepers())
            for pid in keepers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)
            wait_until(lambda: not any(map(alive, keepers)), "the ends of the keepers")
        else:
            wait_until(lambda: home.json("coordinator", "status")["store"], "the failure")
            assert home.stamps.count("start") < COUNT
        heal(disk)
        assert home.wait("train") == 0
        assert set(home.states("train").values()) == {"done"}
        starts = home.stamps.of("start")
        assert set(starts) == set(range(1, COUNT + 1))
        assert trouble == "without inodes" or len(starts) == COUNT, "each started once"
    finally:
        disk.close()
