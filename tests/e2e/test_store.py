"""The store: what it cannot write is said and stops new starts only; what it cannot read is never
replaced."""
import fcntl
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile

import pytest

from harness import fill, grid, read, wait_until
from test_security import ask, connect
from test_terminal import Terminal

DATA = os.path.join(os.path.dirname(__file__), "../data/store")


def leave(home):
    home.run("coordinator", "stop")
    wait_until(lambda: home.coordinator() is None, "its end")


def database(home):
    return home.path + "/pergpu.db"


def store_files(home):
    """Name and bytes of each, without the index of a log."""
    names = [name for name in os.listdir(home.path) if name.startswith("pergpu.db") and not name.endswith("-shm")]
    return {name: open(f"{home.path}/{name}", "rb").read() for name in names}


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


def test_a_full_disk_stops_new_starts_kills_no_job_says_so_and_heals(small_disk):
    home = small_disk
    home.close_gate()
    home.submit(grid("train", 40, 'command = ["stamp"]'), "--lanes", 2)
    home.until_running(2)
    fill(home.path)
    home.open_gate()
    wait_until(lambda: home.json("coordinator", "status")["store"], "the failure")
    wait_until(lambda: home.stamps.count("end") >= 2, "the ends of those that ran")
    assert home.stamps.count("start") < 40
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


def test_a_store_of_the_first_version_is_taken_over(home):
    shutil.copy(DATA + "/v1.db", database(home))
    os.chmod(database(home), 0o600)
    jobs = {str(job["id"]): job for job in home.json("ps", "-a")["jobs"]}
    for line in read(DATA + "/v1.jobs").splitlines():
        number, state, attempt, cls, reason = line.split("|")
        if state not in ("running", "queued"):  # what ran then is lost now, and was queued again
            shown = jobs[number]
            assert [shown["state"], shown["attempt"], shown["class"] or ""] == [state, int(attempt), cls]
            assert shown["reason"].startswith(reason)
    assert home.json("show", "2")["jobs"][0]["attempt"] == 4


def test_a_newer_store_is_refused_with_the_way_out(home):
    shutil.copy(DATA + "/v1.db", database(home))
    with sqlite3.connect(database(home)) as changed:
        changed.execute("PRAGMA user_version = 99")
    changed.close()
    before = open(database(home), "rb").read()
    for words in (["ps"], ["store", "check"], ["store", "backup", "copy.db"]):
        said = home.run(*words, code=3).stderr
        assert "pergpu.db" in said and "newer pergpu" in said and "that version" in said
    assert open(database(home), "rb").read() == before
    assert not os.path.exists(home.work + "/copy.db")


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("keeps_log", [False, True])
def test_a_store_that_makes_no_sense_is_refused_and_its_bytes_stay(home, version, keeps_log):
    shutil.copy(f"{DATA}/{version}.db", database(home))
    changed = sqlite3.connect(database(home))
    changed.execute("UPDATE sweeps SET spec = '{' WHERE id = 2")
    changed.commit()
    if keeps_log:
        shutil.copy(database(home) + "-wal", home.work)
    changed.close()
    if keeps_log:
        shutil.copy(f"{DATA}/{version}.db", database(home))
        shutil.copy(home.work + "/pergpu.db-wal", home.path)
    before = store_files(home)
    said = home.run("ps", code=3).stderr
    assert "sweep second" in said and "pergpu.db-wal away" in said
    assert store_files(home) == before


def test_check_finds_nothing_wrong_with_a_good_store_whether_or_not_it_is_in_use(home):
    assert home.run("store", "check", code=4).stdout == ""
    home.submit(grid("train", 3, 'command = ["sh", "-c", "exit {i}"]'))
    home.wait()
    shown = home.json("store", "check")
    assert shown["fine"] and shown["jobs"] == 3 and shown["problems"] == []
    leave(home)
    files = sorted(os.listdir(home.path))
    assert home.json("store", "check") == shown
    assert sorted(os.listdir(home.path)) == files
    assert home.coordinator() is None, "a check starts none"
    assert "fine" in home.run("store", "check").stdout


def test_check_names_what_is_damaged_and_changes_nothing(home):
    home.submit(grid("train", 3, 'command = ["true"]'))
    home.wait()
    leave(home)
    with sqlite3.connect(database(home)) as changed:
        changed.execute("INSERT INTO events (job, at_wall, at_boot, kind, body) VALUES (2, 0, 0, 'started', '{}')")
        changed.execute("UPDATE events SET body = '{\"cause\":3}', kind = 'stopping' WHERE seq = 1")
    changed.close()
    done = home.run("store", "check", code=1)
    assert "seq 1" in done.stdout and "pergpu.db" in done.stderr
    with open(database(home), "r+b") as f:
        f.seek(4096)
        f.write(b"this is no page at all" * 100)
    before = open(database(home), "rb").read()
    shown = json.loads(home.run("store", "check", "--json", code=1).stdout)
    assert not shown["fine"] and shown["problems"]
    assert open(database(home), "rb").read() == before


def test_check_names_events_that_contradict_each_other(home):
    home.submit(grid("train", 3, 'command = ["true"]'))
    home.wait()
    leave(home)
    with sqlite3.connect(database(home)) as changed:
        changed.execute("INSERT INTO events (job, at_wall, at_boot, kind, body) VALUES (2, 0, 0, 'started', '{}')")
    changed.close()
    assert "job 2" in home.run("store", "check", code=1).stdout
    assert "job 2" in home.run("ps", code=3).stderr


def test_a_backup_made_while_jobs_run_can_take_the_stores_place(home):
    home.env["TOKEN"] = "sesame-open"
    home.close_gate()
    home.submit(grid("train", 6, 'command = ["stamp"]'), "--lanes", 2)
    home.until_running(2)
    copy = home.work + "/copy.db"
    assert home.json("store", "backup", "copy.db") == {"schema": 1, "file": copy, "bytes": os.path.getsize(copy)}
    assert os.stat(copy).st_mode & 0o777 == 0o600
    assert b"sesame-open" not in open(copy, "rb").read()
    assert sorted(os.listdir(home.work)).count("copy.db.pergpu-draft") == 0
    before = open(copy, "rb").read()
    assert "a backup doesn't overwrite files" in home.run("store", "backup", "copy.db", code=2).stderr
    assert open(copy, "rb").read() == before
    home.open_gate()
    assert home.wait() == 0
    leave(home)
    home.run("store", "backup", "later.db")
    for suffix in ("", "-wal"):
        if os.path.exists(database(home) + suffix):
            os.remove(database(home) + suffix)
    shutil.copy(copy, database(home))
    assert home.wait() == 1  # the environment was removed at the end of the sweep
    home.submit(grid("train", 6, 'command = ["stamp"]'), "--lanes", 2)
    assert home.wait() == 0  # what the copy does not know of was done again
    assert [job["state"] for job in home.json("ps", "-a")["jobs"]] == ["done"] * 6
    leave(home)
    for suffix in ("", "-wal"):
        if os.path.exists(database(home) + suffix):
            os.remove(database(home) + suffix)
    shutil.copy(home.work + "/later.db", database(home))
    assert [job["attempt"] for job in home.json("ps", "-a")["jobs"]] == [1] * 6


@pytest.mark.parametrize("runs", [False, True])
def test_a_backup_on_another_disk_is_whole_and_leaves_nothing_in_the_home(home, runs):
    home.submit(grid("train", 3, 'command = ["true"]'))
    home.wait()
    if not runs:
        leave(home)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        home.run("store", "backup", elsewhere + "/copy.db")
        assert os.listdir(elsewhere) == ["copy.db"]
        assert os.stat(elsewhere + "/copy.db").st_mode & 0o777 == 0o600
        with sqlite3.connect(elsewhere + "/copy.db") as copy:
            assert copy.execute("SELECT count(*) FROM jobs").fetchone() == (3,)
        copy.close()
        assert "a backup doesn't overwrite files" in home.run("store", "backup", elsewhere + "/copy.db", code=2).stderr
    assert not [name for name in os.listdir(home.path) if name.startswith("copy-")]
    assert bool(home.coordinator()) == runs, "a backup starts none"


def test_a_copy_beside_the_log_of_the_store_before_it_is_refused(home):
    home.submit(grid("train", 3, 'command = ["true"]'))
    home.run("store", "backup", "copy.db")
    home.wait()
    home.kill_coordinator()
    shutil.copy(home.work + "/copy.db", database(home))
    before = store_files(home)
    assert before["pergpu.db-wal"]
    assert "pergpu.db-wal away" in home.run("ps", code=3).stderr
    assert "pergpu.db-wal away" in home.run("store", "check", code=1).stdout
    assert store_files(home) == before
    os.remove(database(home) + "-wal")
    assert len(home.json("ps", "-a")["jobs"]) == 3


def test_who_has_the_store_is_named_and_no_coordinator_started(home):
    home.submit('[steps.a]\ncommand = ["true"]\n')
    home.wait()
    leave(home)
    with open(home.path + "/coordinator.lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write("`pergpu store check` (process 4711)")
        held.flush()
        asked = [home.start("ps"), home.start("store", "check")]
        for command in asked:
            said = command.communicate(timeout=60)[1]
            assert command.returncode == 3
            assert "coordinator.lock is held by `pergpu store check` (process 4711)" in said
    assert home.coordinator() is None


def test_the_coordinator_copies_into_its_home_only(home):
    home.submit('[steps.a]\ncommand = ["true"]\n')
    home.wait()
    with connect(home, hello=True) as client:
        for path in (home.work + "/copy-1.db", home.path + "/copy-1/../../copy-1.db", home.path + "/env"):
            assert "isn't a valid name for a copy" in ask(client, json.dumps({"op": "backup", "file": path}).encode())["error"]


def test_json_is_ascii_on_a_terminal(home):
    home.submit('[steps.a]\ncommand = ["true"]\n')
    home.wait()
    terminal = Terminal(home, "store", "backup", "\u009b31m.db", "--json")
    assert terminal.ended() == 0
    assert "\\u009b31m.db" in terminal.text and "\u009b" not in terminal.text
