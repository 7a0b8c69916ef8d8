"""Which code a job ran: told of each attempt, also when the code has changed since."""
import csv
import subprocess

from harness import grid, read, wait_until
from schemas import check


def git(home, *words):
    who = ["-c", "user.name=alice", "-c", "user.email=alice@example.org"]
    done = subprocess.run(["git", *who, *words], cwd=home.work, env=home.env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def repository(home):
    home.script("train.sh", "#!/bin/sh\nexit 0\n")
    git(home, "init", "-q")
    git(home, "add", "train.sh")
    git(home, "commit", "-q", "-m", "a first one")
    return git(home, "rev-parse", "HEAD")


def attempts(home, selector):
    """What is known of them is written a moment after the last one has ended."""
    def written():
        found = check("show", home.json("show", selector))["jobs"][0]["attempts"]
        return found if all(one.get("files") is not None for one in found) else None

    return wait_until(written, "the records")


def test_each_attempt_tells_its_commit_and_its_files(home):
    commit = repository(home)
    sweep = home.file("sweep.toml", grid("train", 2, 'command = ["./train.sh"]'))
    home.run("submit", sweep)
    assert home.wait() == 0
    (first,) = attempts(home, "sweep/0")
    assert first["git"] == {"commit": commit, "dirty": False} and list(first["files"]) == ["./train.sh"]
    home.script("train.sh", "#!/bin/sh\ntrue\n")
    home.run("submit", sweep, "--rerun")
    assert home.wait() == 0
    before, after = attempts(home, "sweep/0")
    assert (before["git"], before["files"]) == (first["git"], first["files"])
    assert after["git"] == {"commit": commit, "dirty": True} and after["files"] != before["files"]
    shown = home.run("show", "sweep/0").stdout
    assert f"{commit} with uncommitted changes" in shown and "./train.sh " + after["files"]["./train.sh"][:12] in shown


def test_tables_and_the_report_tell_it_too(home):
    commit = repository(home)
    home.submit(grid("train", 2, 'command = ["./train.sh"]'))
    assert home.wait() == 0
    rows = list(csv.DictReader(home.run("export", "--csv").stdout.splitlines()))
    assert [(row["git_commit"], row["git_dirty"]) for row in rows] == [(commit, "false")] * 2
    home.run("report", "@", "-o", "page.html")
    assert f"{commit}: 2 jobs" in read(home.work + "/page.html")


def test_without_a_repository_there_is_no_commit(home):
    home.submit('[steps.a]\ncommand = ["true"]\n')
    assert home.wait() == 0
    (only,) = attempts(home, "@")
    assert only["git"] is None and only["files"] == {}
    (row,) = csv.DictReader(home.run("export", "--csv").stdout.splitlines())
    assert (row["git_commit"], row["git_dirty"]) == ("", "")


def test_changed_code_is_warned_of_also_after_a_kill(home):
    home.script("train.sh", "#!/bin/sh\nexec stamp\n")
    home.close_gate()
    home.submit(grid("train", 2, 'command = ["./train.sh"]'), "--lanes", 1)
    home.until_running()
    home.run("hold", "sweep/1")  # when that is answered all before it is on the disk
    home.run("release", "sweep/1")
    home.kill_coordinator()
    home.script("train.sh", "#!/bin/sh\nexec stamp  # changed\n")
    home.run("cancel", "--kill", "sweep/0")
    home.until_running(2)
    warning = "./train.sh has changed since step train first started"
    assert home.only("sweep/1")["warnings"] == [warning]
    assert warning in home.run("ps").stdout and warning in home.run("why", "sweep/1").stdout
    home.open_gate()
    home.wait()
