"""The store: what it cannot write is said and stops new starts only; what it cannot read is never
replaced."""
import os
import subprocess

import pytest

from harness import grid, read, wait_until


@pytest.fixture
def small_disk(home):
    """The home on a file system of its own, 4 MiB large."""
    options = ["-t", "tmpfs", "-o", "size=4m,mode=700", "none", home.path]
    if os.getuid() != 0 or subprocess.run(["mount", *options], capture_output=True).returncode:
        pytest.skip("cannot mount a small file system here")
    home.mounted = True
    yield home
    home.stop()
    subprocess.run(["umount", "-l", home.path], check=True)


def fill(home):
    with open(home.path + "/filler", "wb", buffering=0) as f:
        try:
            while f.write(b"\0" * 4096):
                pass
        except OSError:
            pass


def test_a_full_disk_stops_new_starts_kills_no_job_says_so_and_heals(small_disk):
    home = small_disk
    home.close_gate()
    home.submit(grid("train", 40, 'command = ["stamp"]'), "--lanes", 2)
    home.until_running(2)
    fill(home)
    home.open_gate()
    wait_until(lambda: home.json("coordinator", "status")["store"], "the failure")
    started = home.stamps.count("start")
    assert home.stamps.count("end") >= 2 and started < 40
    queued = [job["id"] for job in home.json("ps")["jobs"] if job["state"] == "queued"]
    assert "store" in home.run("why", queued[-1]).stdout
    refused = home.run("submit", home.file("b.toml", '[steps.b]\ncommand = ["true"]\n'), code=3)
    assert "space" in refused.stderr or "full" in refused.stderr
    os.remove(home.path + "/filler")
    assert home.wait() == 0
    assert sorted(home.stamps.of("start")) == list(range(1, 41))


def test_an_unreadable_store_is_refused_and_its_bytes_stay(home):
    home.submit('[steps.a]\ncommand = ["true"]\n')
    home.wait()
    home.run("coordinator", "stop")
    wait_until(lambda: home.coordinator() is None, "its end")
    for suffix in ("-wal", "-shm"):
        if os.path.exists(home.path + "/pergpu.db" + suffix):
            os.remove(home.path + "/pergpu.db" + suffix)
    with open(home.path + "/pergpu.db", "r+b") as f:
        f.write(b"this is no database at all" * 100)
    before = open(home.path + "/pergpu.db", "rb").read()
    shown = home.run("ps", code=3).stderr
    assert "pergpu.db" in shown
    assert open(home.path + "/pergpu.db", "rb").read() == before
    assert home.run("submit", home.file("b.toml", '[steps.b]\ncommand = ["true"]\n'), code=3)


def test_what_was_recorded_is_there_after_a_restart(home):
    home.submit(grid("train", 3, 'command = ["sh", "-c", "exit {i}"]'))
    home.wait()
    before = home.json("ps", "-a")
    home.run("coordinator", "stop")
    wait_until(lambda: home.coordinator() is None, "its end")
    assert home.json("ps", "-a") == before
    assert read(home.only("sweep/0")["log"]) == ""
