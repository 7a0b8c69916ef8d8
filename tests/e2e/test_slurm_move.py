"""A sweep on Slurm that goes on from another login node: another home, the same folders."""
import contextlib
import os
import random
import time

import pytest
from harness import read, wait_until
from test_slurm import long

SWEEP = """
name = "moves"
[grid]
x = [1, 2, 3]
[steps.train]
command = "stamp 0"
[steps.evaluate]
needs = ["train"]
command = "stamp 0"
"""


@pytest.fixture
def elsewhere(slurm, home, new_home):
    """A home that another machine could have; its jobs stamp the same file."""
    home.file("sweep.toml", SWEEP)
    other = new_home()
    for name in ("PATH", "STAMPS", "GATE", "SLURM_CONF"):
        other.env[name] = home.env[name]
    yield other
    home.open_gate()
    other.stop()


def submit(home, where, **options):
    return home.json("submit", f"{where.work}/sweep.toml", "--on", "slurm", **options)


def ended(home):
    return set(home.states().values()) <= {"done", "failed", "lost", "cancelled", "skipped", "held"}


@pytest.mark.parametrize("first", [pytest.param("dead", marks=long), "alive"])
def test_what_was_handed_over_goes_on_from_another_machine(slurm, home, elsewhere, first):
    home.close_gate()
    submit(home, home)
    home.until_running(3)
    wait_until(lambda: len(slurm.open()) == 6, "both arrays in Slurm's hands")
    if first == "dead":
        home.run("coordinator", "stop")
    submit(elsewhere, home)
    wait_until(lambda: list(elsewhere.states().values()).count("running") == 3, "what runs, seen from there")
    wait_until(lambda: "Slurm job" in elsewhere.run("why", "moves/0/train").stdout, "where it runs")
    # The first goes on seeing what runs, and hands over nothing more.
    wait_until(lambda: home.ps()["00-x=1/evaluate"]["state"] == "held", "the first one's letting go")
    wait_until(lambda: home.ps()["00-x=1/train"]["state"] == "running", "what runs, seen from the first")
    reason = home.ps()["00-x=1/evaluate"]["reason"]
    assert f"taken over by pergpu on {os.uname().nodename.split('.')[0]}" in reason and elsewhere.path in reason, reason
    home.open_gate()
    assert elsewhere.wait() == 0
    jobs = elsewhere.ps()
    assert {job["state"] for job in jobs.values()} == {"done"} and jobs["00-x=1/train"]["node"] == "n0"
    assert home.stamps.count("start") == 6 and len(slurm.queue()) == 6, "each ran once, nothing was submitted again"
    # The first has seen it, too, and has nothing to do when it is told to go on.
    wait_until(lambda: set(home.states().values()) == {"done"}, "the end, seen from the first")
    submit(home, home)
    assert home.wait() == 0
    assert home.stamps.count("start") == 6


@long
def test_an_older_handover_of_a_job_says_nothing_of_what_runs(slurm, home, elsewhere):
    code = home.file("code", "3")
    home.file("sweep.toml", f'name = "moves"\nsteps.train.shell = "stamp 0 $(cat {code})"\n')
    submit(home, home)
    assert home.wait() == 1
    home.close_gate()
    home.run("retry", "moves")
    home.until_running(2)
    submit(elsewhere, home)
    wait_until(lambda: elsewhere.only()["state"] == "running", "its being known there")
    submit(home, home)
    wait_until(lambda: home.only()["state"] == "running", "its being taken back")
    submit(elsewhere, home)
    wait_until(lambda: elsewhere.only()["state"] == "running", "its being taken again")
    home.file("code", "0")
    home.open_gate()
    elsewhere.wait()
    assert elsewhere.only()["attempt"] == home.stamps.count("start") == 2


def test_what_had_ended_before_is_known_there(slurm, home, elsewhere):
    submit(home, home)
    assert home.wait() == 0
    home.stop()
    submit(elsewhere, home)
    assert elsewhere.wait() == 0
    assert home.stamps.count("start") == 6
    assert {name: job["attempt"] for name, job in elsewhere.ps().items()} == dict.fromkeys(home.ps(), 1)
    assert "1 attempt" in elsewhere.run("show", "1").stdout or elsewhere.json("show", "1")


def test_what_is_cancelled_there_ends(slurm, home, elsewhere):
    home.close_gate()
    submit(home, home)
    home.until_running(3)
    submit(elsewhere, home)
    wait_until(lambda: list(elsewhere.states().values()).count("running") == 3, "what runs")
    elsewhere.run("cancel", "moves")
    wait_until(lambda: ended(elsewhere), "its end")
    assert set(elsewhere.states().values()) <= {"cancelled", "skipped"}
    wait_until(lambda: not slurm.open(), "the end of Slurm's jobs")
    assert home.stamps.count("start") == 3


def modes_below(folder):
    """{name: modes that files and folders of it have}."""
    out = {}
    for at, folders, files in os.walk(folder):
        for name in folders + files:
            with contextlib.suppress(FileNotFoundError):  # a draft
                out.setdefault(name, set()).add(os.lstat(f"{at}/{name}").st_mode & 0o777)
    return out


def test_files_of_a_private_sweep_stay_private_whoever_writes_them(slurm, home, elsewhere):
    seen = {}

    def has_seen(name):
        for each, modes in modes_below(home.work + "/runs").items():
            seen.setdefault(each, set()).update(modes)
        return name in seen

    home.close_gate()
    submit(home, home, umask=0o077)
    home.until_running(3)
    submit(elsewhere, home, umask=0o077)
    wait_until(lambda: list(elsewhere.states().values()).count("running") == 3, "what runs")
    wait_until(lambda: has_seen("now.0.json"), "what a task tells of what runs")
    elsewhere.run("cancel", "moves")
    wait_until(lambda: ended(elsewhere), "its end")
    wait_until(lambda: has_seen("closed"), "the end of what was handed over")
    assert {"owner", "handover.jsonl", "submitted", "0.1.1.jsonl", "end.0.json", "attempt.json"} <= set(seen)
    open_to_others = {name: modes for name, modes in seen.items() if any(mode & 0o077 for mode in modes)}
    assert {name for name in open_to_others if not name.startswith(".pergpu-lock")} == set()


def test_another_command_does_not_begin_in_a_folder_that_is_in_use(slurm, home, elsewhere):
    home.close_gate()
    submit(home, home)
    home.until_running(3)
    home.run("coordinator", "stop")
    home.file("sweep.toml", SWEEP.replace('command = "stamp 0"\n[steps.ev', 'command = "stamp 0 0"\n[steps.ev'))
    submit(elsewhere, home)
    wait_until(lambda: "scancel" in elsewhere.ps()["00-x=1/train"]["reason"], "words about whose folder it is")
    assert elsewhere.ps()["00-x=1/train"]["state"] == "held"
    assert home.stamps.count("start") == 3


@long
def test_a_take_over_that_is_killed_at_any_moment_loses_and_doubles_nothing(slurm, home, elsewhere):
    chance = random.Random(11)
    homes = [home, elsewhere]
    for turn in range(20):
        before = home.stamps.count("start")
        home.file("sweep.toml", SWEEP.replace("moves", f"moves{turn}").replace("stamp 0", "stamp 1"))
        submit(homes[0], home)
        while True:
            time.sleep(chance.random() * 0.8)
            homes[0].kill_coordinator()
            homes.reverse()
            submit(homes[0], home)
            states = homes[0].states(f"moves{turn}")
            if set(states.values()) == {"done"}:
                break
            assert not set(states.values()) & {"failed", "cancelled", "skipped"}, homes[0].run("ps", "-a", f"moves{turn}").stdout
        assert home.stamps.count("start") == before + 6, read(home.stamps.path)
    homes[1].run("ps")  # so that what the last kill has left is ended in order
