"""`pergpu clean`: what has ended is forgotten, its results are removed, and nothing else."""
import contextlib
import json
import os
import resource
import shutil

from harness import grid, read, wait_until
from schemas import check
from test_security import ask, connect

WRITES = 'shell = \'head -c 1000 /dev/zero >"$PERGPU_OUT/model.pt"; mkdir -p "$PERGPU_OUT/a/b"; echo x >"$PERGPU_OUT/a/b/c"\''


def cleaned(home, *args, **options):
    return check("clean", home.json("clean", *args, **options))


def ended(home, name, *args, count=2, step=WRITES):
    home.submit(grid("train", count, step), *args, name=name + ".toml")
    assert home.wait(name) == 0
    return f"{home.work}/runs/{name}"


def until_recorded(folder):
    for run in ("00-i=0", "01-i=1"):
        record = f"{folder}/{run}/train/attempt.json"
        wait_until(lambda: json.loads(read(record, "{}")).get("class") == "ok", "the final record")


def test_without_yes_it_only_says_what_would_go(home):
    folder = ended(home, "old")
    told = cleaned(home, "old", "--results")
    (sweep,) = told["sweeps"]
    assert not told["done"] and (sweep["sweep"], sweep["jobs"], sweep["folder"]) == ("old", 2, folder)
    assert sweep["bytes"] == told["bytes"] > 2000 and sweep["files"] == told["files"] >= 8
    said = home.run("clean", "old")
    assert "old" in said.stdout and "pass --yes to forget them" in said.stderr
    assert len(home.ps("old")) == 2 and len(os.listdir(folder)) == 2


def test_the_history_goes_and_the_results_stay_unless_they_are_named(home):
    folder = ended(home, "old")
    keep = ended(home, "keep")
    told = cleaned(home, "old", "--yes")
    assert told["done"] and told["files"] == 0 and told["sweeps"][0]["files"] is None
    home.run("ps", "old", code=4)
    home.run("show", "1", code=4)
    assert set(job["sweep"] for job in home.json("ps", "-a")["jobs"]) == {"keep"}
    assert os.path.exists(folder + "/00-i=0/train/model.pt")
    home.kill_coordinator()
    home.run("ps", "old", code=4)
    assert len(home.ps("keep")) == 2 and os.path.isdir(keep)
    assert home.json("store", "check")["problems"] == []
    reply = home.submit(grid("train", 2, WRITES), name="old.toml")
    assert (reply["new"], reply["jobs"]) == (2, [5, 6])
    assert home.wait("old") == 0


def test_results_go_and_what_is_not_theirs_stays(home):
    outside = home.file("outside/data.bin", "mine")
    old = ended(home, "old")
    os.symlink(os.path.dirname(outside), old + "/00-i=0/train/link")
    os.symlink(outside, old + "/01-i=1/train/file")
    with open(old + "/notes.txt", "w") as notes:
        notes.write("mine")
    keep = ended(home, "keep")
    told = cleaned(home, "old", "--results", "--yes")
    assert told["problems"] == [] and told["files"] >= 10 and told["bytes"] > 2000
    assert os.listdir(old) == ["notes.txt"] and read(outside) == "mine"
    assert os.path.exists(keep + "/00-i=0/train/model.pt")
    keeps = cleaned(home, "keep", "--results", "--yes")
    assert keeps["done"] and not os.path.exists(keep)


def test_what_is_open_stays(home):
    home.close_gate()
    home.submit(grid("train", 2, 'command = ["stamp"]'), "--lanes", 1)
    home.until_running()
    told = cleaned(home, "sweep", "--results")
    assert told["sweeps"] == [] and told["left"][0]["why"] == "2 of its jobs have not ended"
    assert cleaned(home, "sweep", "--results", "--yes", code=1)["left"] == told["left"]
    assert "sweep stays: 2 of its jobs" in home.run("clean", "sweep", "--yes", code=1).stderr
    home.open_gate()
    assert home.wait() == 0 and len(home.ps("sweep")) == 2


def test_only_whole_sweeps_that_are_named_or_old(home):
    ended(home, "old")
    assert "--older" in home.run("clean", code=2).stderr
    for part in ("1", "old/0", "old/*/train"):
        assert "whole sweeps" in home.run("clean", part, "--yes", code=2).stderr
    home.run("clean", "nothing", "--yes", code=4)
    assert "--older" in home.run("clean", "--older", "30", code=2).stderr
    assert cleaned(home, "--older", "30d", "--yes")["sweeps"] == []
    assert [one["sweep"] for one in cleaned(home, "--older", "0s")["sweeps"]] == ["old"]
    assert "ended less than 30d ago" in cleaned(home, "old", "--older", "30d")["left"][0]["why"]
    wait_until(lambda: cleaned(home, "--older", "1s")["sweeps"], "a second")
    assert len(cleaned(home, "--older", "1s", "--yes")["sweeps"]) == 1
    assert home.json("ps", "-a")["jobs"] == []


def test_a_link_in_the_place_of_the_folder_is_not_followed(home):
    folder = ended(home, "old")
    elsewhere = home.work + "/elsewhere"
    os.rename(folder, elsewhere)
    os.symlink(elsewhere, folder)
    said = home.run("clean", "old", "--results", "--yes", code=2).stderr
    assert "is a link or a file, not a folder" in said and len(home.ps("old")) == 2
    assert os.path.exists(elsewhere + "/00-i=0/train/model.pt")
    cleaned(home, "old", "--yes")
    assert os.path.exists(elsewhere + "/00-i=0/train/model.pt")


def test_two_names_of_one_folder_where_the_other_sweep_is_open(home):
    folder = ended(home, "old")
    os.symlink("old", home.work + "/runs/new")
    home.close_gate()
    home.submit(grid("train", 2, 'command = ["stamp"]'), "--rerun", "--lanes", 1, name="new.toml")
    home.until_running()
    said = home.run("clean", "*", "--results", "--yes", code=2).stderr
    assert "the folder of a sweep that is kept" in said and os.path.exists(folder + "/00-i=0/train/model.pt")
    home.open_gate()
    assert home.wait() == 0


def test_results_of_an_ended_sweep_that_is_not_named_stay_under_whatever_name(home):
    folder = ended(home, "old")
    os.symlink("old", home.work + "/runs/new")  # one folder by two names
    ended(home, "new", "--rerun")
    said = home.run("clean", "old", "--results", "--yes", code=2).stderr
    assert "is also the folder of a sweep that is kept" in said
    cleaned(home, "new", "--yes")
    home.submit(grid("deep", 1, WRITES), "--out", "outer", name="inner.toml")
    assert home.wait("inner") == 0
    os.rename(home.work + "/outer", folder + "/00-i=0/outer")  # what was there is a link by now
    os.symlink(folder + "/00-i=0/outer", home.work + "/outer")
    said = home.run("clean", "old", "--results", "--yes", code=2).stderr
    assert f"contains the results of a sweep that is kept: {folder}/00-i=0/outer/inner" in said
    assert os.path.exists(folder + "/00-i=0/train/model.pt") and len(home.ps("old")) == 2


def test_what_is_not_there_because_its_disk_is_not(home):
    folder = ended(home, "old")
    until_recorded(folder)
    os.rename(home.work + "/runs", home.work + "/unmounted")
    said = home.run("clean", "old", "--results", "--yes", code=1).stderr
    assert "does not exist: is its file system mounted?" in said
    os.symlink("runs", home.work + "/runs")  # a loop: what cannot be looked at
    said = home.run("clean", "old", "--results", "--yes", code=1).stderr
    assert "Too many levels of symbolic links" in said and len(home.ps("old")) == 2
    os.remove(home.work + "/runs")
    os.rename(home.work + "/unmounted", home.work + "/runs")
    assert cleaned(home, "old", "--results", "--yes")["files"] >= 8 and not os.path.exists(folder)


def test_a_sweep_whose_folder_was_removed_by_hand(home):
    folder = ended(home, "old")
    until_recorded(folder)
    shutil.rmtree(folder)
    assert cleaned(home, "old", "--results", "--yes")["files"] == 0
    home.run("ps", "old", code=4)
    assert cleaned(home, "--older", "1000d", "--results", "--yes")["problems"] == []


def test_attempts_that_are_none_of_the_sweep_keep_the_folder(home):
    folder = ended(home, "old")
    until_recorded(folder)
    own = json.loads(read(folder + "/01-i=1/train/attempt.json"))
    for change, words in (
        ({"starting_at": "2199-01-01T00:00:00.000Z", "state": "done"}, "began after the sweep had ended"),
        ({"starting_at": "2001-01-01T00:00:00.000Z", "state": "running"}, "a running attempt of another sweep"),
        ({"state": "running", "job": 99}, "a running attempt of another sweep"),
    ):
        home.file("runs/old/01-i=1/train/attempt.json", json.dumps({**own, "started_at": None, **change}))
        for yes in ((), ("--yes",)):
            told = cleaned(home, "old", "--results", *yes, code=1)
            assert told["sweeps"] == [] and words in told["problems"][0]
        assert len(home.ps("old")) == 2 and sorted(os.listdir(folder)) == ["00-i=0", "01-i=1"]
    # Its own, whose end was not written there.
    home.file("runs/old/01-i=1/train/attempt.json", json.dumps({**own, "started_at": None, "state": "running"}))
    assert cleaned(home, "old", "--results", "--yes")["problems"] == [] and not os.path.exists(folder)


def test_what_lies_in_the_place_of_the_aside_is_not_followed(home):
    folder = ended(home, "old")
    os.mkdir(home.work + "/mine")
    os.symlink(home.work + "/mine", folder + "/.cleaned-1")
    told = cleaned(home, "old", "--results", "--yes", code=1)
    assert "is not the folder that `clean` moved there" in told["problems"][0] and told["sweeps"] == []
    assert os.listdir(home.work + "/mine") == [] and len(home.ps("old")) == 2
    assert os.path.exists(folder + "/00-i=0/train/model.pt")
    assert home.submit(grid("train", 2, WRITES), name="old.toml")["kept"] == 2


def test_who_removes_results_keeps_its_connection(home):
    ended(home, "old")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with contextlib.ExitStack() as open_ones:
        first = open_ones.enter_context(connect(home, hello=True))
        request = {"op": "clean", "sel": ["old"], "results": True, "take": True}
        assert ask(first, json.dumps(request).encode())["ok"]
        for _ in range(1100):
            open_ones.enter_context(connect(home, hello=True))
        assert ask(first, b'{"op":"status"}')["data"]["cleaning"] == 1
        assert not ask(first, b'{"op":"moved","sweep_id":2}')["ok"]


def test_of_a_client_that_was_killed_early_the_sweep_is_still_there(home):
    folder = ended(home, "old")
    request = {"op": "clean", "sel": ["old"], "results": True, "take": True}
    with connect(home, hello=True) as client:
        (sweep,) = ask(client, json.dumps(request).encode())["data"]["sweeps"]
        why = cleaned(home, "old", "--yes", code=1)["left"][0]["why"]
        assert why == "another `pergpu clean` is removing its results"
        assert ask(client, b'{"op":"moving","sweep_id":1}')["ok"]
        os.mkdir(sweep["aside"])
        os.rename(folder + "/00-i=0", sweep["aside"] + "/00-i=0")
    wait_until(lambda: home.json("coordinator", "status")["cleaning"] == 0, "the end of its connection")
    assert len(home.ps("old")) == 2
    said = home.run("clean", "old", "--yes", code=2).stderr
    assert ".cleaned-1: --results removes them" in said
    said = home.run("submit", home.file("old.toml", grid("train", 2, WRITES)), code=2).stderr
    assert "finish it with `pergpu clean old --results --yes`" in said
    told = cleaned(home, "old", "--results", "--yes")
    assert told["files"] >= 8 and told["problems"] == [] and not os.path.exists(folder)
    assert home.submit(grid("train", 2, WRITES), name="old.toml")["new"] == 2
    assert home.wait("old") == 0


def test_what_a_killed_client_left_is_removed_by_the_next_one(home):
    folder = ended(home, "old")
    request = {"op": "clean", "sel": ["old"], "results": True, "take": True}
    with connect(home, hello=True) as client:
        (sweep,) = ask(client, json.dumps(request).encode())["data"]["sweeps"]
        assert sweep["runs"] == ["00-i=0", "01-i=1"] and sweep["aside"] == folder + "/.cleaned-1"
        said = home.run("submit", home.file("old.toml", grid("train", 2, WRITES)), code=2).stderr
        assert "is removing results from that folder" in said
        # As far as it came: all is moved and nothing removed, and the coordinator dies with it.
        os.mkdir(sweep["aside"])
        for run in sweep["runs"]:
            os.rename(f"{folder}/{run}", f"{sweep['aside']}/{run}")
        assert ask(client, b'{"op":"moved","sweep_id":1}')["ok"]
        home.kill_coordinator()
    home.run("ps", "old", code=4)
    assert home.submit(grid("train", 2, WRITES), name="old.toml")["new"] == 2
    assert home.wait("old") == 0
    told = cleaned(home, "--older", "1000d", "--results", "--yes")
    assert told["sweeps"] == [] and told["files"] >= 8 and not os.path.exists(sweep["aside"])
    assert sorted(os.listdir(folder)) == ["00-i=0", "01-i=1"]
    assert cleaned(home, "--older", "1000d", "--results", "--yes")["files"] == 0
