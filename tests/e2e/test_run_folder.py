"""Sockets or their folder are removed while jobs run."""
import os
import shutil

import pytest
from harness import grid


@pytest.fixture
def runtime(home):
    """A home whose sockets lie in XDG_RUNTIME_DIR, as those of most users do."""
    home.runtime = home.root + "/rt/user"
    os.makedirs(home.runtime, mode=0o700)
    home.env.update(PERGPU_HOME="", XDG_STATE_HOME=home.path, XDG_RUNTIME_DIR=home.runtime)
    return home


def sockets(home):
    return sorted(name for _, _, names in os.walk(home.runtime) for name in names)


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
    before = home.ps()
    remove(home)
    home.kill_coordinator()  # its keepers start the next one
    assert {name: job["pid"] for name, job in home.ps().items()} == {name: job["pid"] for name, job in before.items()}
    home.open_gate()
    assert home.wait() == 0
    assert [job["attempts"] for job in home.ps().values()] == [1, 1, 1]
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
    assert {job["exit_code"] for job in home.ps().values()} == {3}
    assert home.stamps.count("start") == 2
