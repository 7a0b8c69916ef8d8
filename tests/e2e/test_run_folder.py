"""Sockets, their folder or the whole home are removed while jobs run."""
import glob
import json
import os
import shutil
import signal

import pytest
from harness import alive, grid, read, wait_until

# Appends what it does; ends when its gate is open.
ONE = '[steps.train]\ncommand = ["stamp"]\n'


@pytest.fixture
def runtime(home):
    """A home whose sockets lie in XDG_RUNTIME_DIR, as those of most users do."""
    home.runtime = home.root + "/rt/user"
    os.makedirs(home.runtime, mode=0o700)
    home.env.update(PERGPU_HOME="", XDG_STATE_HOME=home.path, XDG_RUNTIME_DIR=home.runtime)
    return home


def sockets(home):
    return sorted(name for _, _, names in os.walk(home.runtime) for name in names)


def attempts(home):
    return {name: (job["attempt"], job["started_at"]) for name, job in home.ps().items() if job["state"] == "running"}


def emptied(home):
    shutil.rmtree(home.runtime)
    os.mkdir(home.runtime, 0o700)


def socket_alone(home):
    (folder,) = [folder for folder, _, names in os.walk(home.runtime) if "coordinator.sock" in names]
    os.remove(folder + "/coordinator.sock")


def for_good(home):
    """As when its parent is root's: it can't be made again."""
    shutil.rmtree(home.root + "/rt")
    open(home.root + "/rt", "w").close()


@pytest.mark.parametrize("remove", [emptied, socket_alone, for_good])
def test_commands_reach_a_coordinator_whose_sockets_were_removed(runtime, remove):
    home = runtime
    home.close_gate()
    home.submit(grid("train", 2, 'command = ["stamp"]'), "--lanes", "1")
    home.until_running()
    pid = home.coordinator()
    remove(home)
    assert home.json("coordinator", "status")["pid"] == pid
    assert sorted(home.states().values()) == ["queued", "running"]
    # A shell without the variable (cron) finds it, too.
    assert home.json("coordinator", "status", env={"XDG_RUNTIME_DIR": ""})["pid"] == pid
    home.open_gate()
    assert home.wait() == 0
    assert home.stamps.count("start") == 2


@pytest.mark.parametrize("remove", [emptied, for_good])
def test_jobs_are_adopted_when_the_coordinator_is_killed_after_its_sockets_went(runtime, remove):
    home = runtime
    home.close_gate()
    home.submit(grid("train", 3, 'command = ["stamp"]'), "--lanes", "2")
    home.until_running(2)
    before = attempts(home)
    assert len(before) == 2
    remove(home)
    home.kill_coordinator()  # its keepers start the next one
    assert attempts(home) == before
    home.open_gate()
    assert home.wait() == 0
    assert [job["attempt"] for job in home.ps().values()] == [1, 1, 1]
    assert home.stamps.count("start") == 3


def test_what_ended_while_neither_sockets_nor_coordinator_were_there_is_known(runtime):
    home = runtime
    home.close_gate()
    home.submit(grid("train", 2, 'command = ["stamp", "0", "3"]'), "--lanes", "2")
    home.until_running(2)
    emptied(home)
    home.kill_coordinator()
    home.open_gate()
    assert home.wait() == 1
    assert {job["exit"] for job in home.ps().values()} == {3}
    assert home.stamps.count("start") == 2


def left_running(home):
    """The pid of a job that a stopped coordinator has left."""
    home.close_gate()
    home.submit(ONE)
    home.until_running()
    home.run("coordinator", "stop")
    return home.stamps.lines()[0][3]


def test_stop_with_kill_ends_jobs_whose_sockets_moved_after_a_stop(runtime):
    """Between the two a logout removes the run folder, and a login makes it again."""
    home = runtime
    job = left_running(home)
    for_good(home)
    wait_until(lambda: glob.glob(home.path + "/pergpu/*/run/k*"), "its keeper's sockets in the home")
    os.remove(home.root + "/rt")
    os.makedirs(home.runtime, mode=0o700)
    assert json.loads(home.run("coordinator", "stop", "--json").stdout)["running"] is None
    assert "jobs of the last one may be" in home.run("coordinator", "stop").stderr
    assert "1 job ended" in home.run("coordinator", "stop", "--kill").stderr
    assert not alive(job) and home.only()["state"] == "cancelled"


def test_stop_with_kill_ends_jobs_whose_sockets_are_nowhere(runtime):
    home = runtime
    job = left_running(home)
    for folder, _, names in os.walk(home.runtime):
        for name in names:
            os.remove(f"{folder}/{name}")
    home.run("coordinator", "stop", "--kill")
    assert not alive(job)


def test_a_home_that_is_removed_while_jobs_run_starts_nothing_more(home):
    home.close_gate()
    sweep = home.file("s.toml", grid("train", 3, 'command = ["stamp"]', 'name = "s"'))
    home.run("submit", sweep, "--lanes", "1")
    home.until_running()
    first = home.coordinator()
    shutil.rmtree(home.path)
    refused = home.run("submit", sweep, "--lanes", "1", code=3).stderr
    job = home.stamps.lines()[0][3]
    assert f"jobs of an earlier home at {home.path}" in refused and f"job 1 (process {job})" in refused
    assert home.run("ps").returncode == 0
    home.open_gate()
    wait_until(lambda: not alive(first), "the end of the first coordinator")
    assert [line[0] for line in home.stamps.lines()] == ["start", "end"]
    # What is done isn't run again unless it is asked for.
    again = lambda: home.run("submit", sweep, "--lanes", "1", code=None).stderr  # noqa: E731
    wait_until(lambda: "contains results" in again(), "the refusal")
    home.run("submit", sweep, "--lanes", "1", "--rerun")
    assert home.wait() == 0
    assert home.stamps.count("start") == 4


def test_a_coordinator_whose_home_was_replaced_says_so_and_ends_with_its_jobs(runtime):
    home = runtime
    home.close_gate()
    home.submit(grid("train", 2, 'command = ["stamp"]'), "--lanes", "1")
    home.until_running()
    first = home.coordinator()
    shutil.rmtree(home.path)
    refused = home.run("run", "--name", "other", "--", "true", code=3).stderr
    assert "was replaced by another folder" in refused and f"process {first}" in refused
    (waits,) = [job for job in home.ps().values() if job["state"] == "queued"]
    assert "no jobs start: the home" in home.run("why", waits["id"]).stdout
    home.open_gate()
    wait_until(lambda: not alive(first), "its end")
    assert home.stamps.count("start") == 1
    home.run("run", "--name", "other", "--", "true")


def test_a_home_that_is_moved_back_is_taken_up_again(home):
    home.close_gate()
    home.submit(grid("train", 2, 'command = ["stamp"]'), "--lanes", "1")
    home.until_running()
    pid = home.coordinator()
    os.rename(home.path, home.path + "-moved")
    wait_until(lambda: "was removed or moved away" in read(home.path + "-moved/coordinator.log"), "the word")
    home.open_gate()
    wait_until(lambda: home.stamps.count("end") == 1, "the end of the first")
    os.rename(home.path + "-moved", home.path)
    assert home.wait() == 0
    assert home.coordinator() == pid and home.stamps.count("start") == 2


def test_a_lock_that_is_removed_lets_no_second_coordinator_in(home):
    home.close_gate()
    home.submit(ONE)
    home.until_running()
    pid = home.coordinator()
    os.remove(home.path + "/coordinator.lock")
    wait_until(lambda: os.path.exists(home.path + "/coordinator.lock"), "the lock")
    home.run("coordinator", "run")  # it leaves, since the first one answers
    assert home.coordinator() == pid
    home.open_gate()
    assert home.wait() == 0


@pytest.mark.parametrize("how", ["stop", "kill", "stop before", "kill, replaced"])
def test_jobs_of_a_removed_home_are_left_alone_by_the_coordinator_of_the_next(runtime, how):
    home = runtime
    home.close_gate()
    sweep = home.file("s.toml", grid("train", 2, 'command = ["stamp"]', 'name = "s"'))
    home.run("submit", sweep, "--lanes", "1")
    home.until_running()
    folder = home.json("coordinator", "status")["home"]
    if how == "stop before":
        home.run("coordinator", "stop")
    shutil.rmtree(folder)
    if how in ("stop", "kill, replaced"):
        os.mkdir(folder, 0o700)
    if how == "stop":
        home.run("coordinator", "stop")
    if "kill" in how:
        home.kill_coordinator()
    assert home.ps() == {}
    refused = home.run("submit", sweep, "--lanes", "1", code=3).stderr
    assert f"job 1 (process {home.stamps.lines()[0][3]})" in refused
    home.open_gate()
    wait_until(lambda: home.stamps.count("end") == 1, "its own end")
    again = lambda: home.run("submit", sweep, "--lanes", "1", "--rerun", code=None).returncode  # noqa: E731
    wait_until(lambda: again() == 0, "the next home's turn")
    assert home.wait() == 0
    assert [job["attempt"] for job in home.ps().values()] == [1, 1]
    assert home.stamps.count("start") == 3


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_job_that_runs_while_its_home_is_moved_to_another_disk_runs_once(runtime, how):
    home = runtime
    home.close_gate()
    home.submit(grid("train", 2, 'command = ["stamp"]'), "--lanes", "1")
    wait_until(lambda: "running" in home.states().values(), "a start, stored")
    if how == "stop":
        home.run("coordinator", "stop")
    first = home.coordinator()
    shutil.copytree(home.path, home.root + "/disk")
    shutil.rmtree(home.path)
    os.symlink(home.root + "/disk", home.path)
    if how == "kill":
        os.kill(first, signal.SIGKILL)
    assert sorted(job["state"] for job in home.ps().values()) == ["queued", "running"]
    home.open_gate()
    assert home.wait() == 0
    assert [job["attempt"] for job in home.ps().values()] == [1, 1]
    assert home.stamps.count("start") == home.stamps.count("end") == 2


def test_a_job_whose_home_was_moved_under_another_path_is_not_killed(home):
    """Its sockets and its keeper's record were in the home, and are gone."""
    home.close_gate()
    home.submit('name = "moved"\n' + ONE)
    wait_until(lambda: home.only()["state"] == "running", "its start, stored")
    first = home.coordinator()
    disk = home.root + "/disk"
    shutil.copytree(home.path, disk, ignore=shutil.ignore_patterns("run"))
    shutil.rmtree(home.path)
    os.symlink(disk, home.path)
    os.kill(first, signal.SIGKILL)
    home.path = home.env["PERGPU_HOME"] = disk
    home.run("run", "--name", "other", "--", "true")  # the next coordinator has looked at what runs
    job = home.only("moved")
    assert (job["state"], job["attempt"]) == ("running", 1)
    home.open_gate()
    home.wait()
    assert home.stamps.lines()[1][:3] == ("end", 1, 1)  # how it ended is lost, and it runs again
