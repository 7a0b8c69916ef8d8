"""Code that waits for its start can't be replaced by others."""
import os
import shutil

import pytest

from harness import grid, read, wait_until

ROOT = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to give files to another user")
OTHER = 61001
RUNS = """snapshot = ["*.sh"]
command = ["./train.sh"]"""


def code(home, word="own code"):
    home.script("train.sh", f'#!/bin/sh\nstamp\necho "{word}" >"$PERGPU_OUT/word"; pwd >"$PERGPU_OUT/where"\n')


def shared(home):
    """An output root that everybody may write to."""
    os.mkdir(home.work + "/shared")
    os.chmod(home.work + "/shared", 0o777)
    return home.work + "/shared"


def in_home(home):
    folder = os.path.realpath(home.path) + "/code"
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def words(home):
    return [read(job["out"] + "/word", "").strip() for job in home.ps("sweep").values()]


def test_copies_lie_in_the_home_where_others_may_write_to_the_results(home):
    code(home)
    root = shared(home)
    home.submit(grid("train", 2, RUNS), "--out", root)
    assert home.wait() == 0 and words(home) == ["own code"] * 2
    where = read(home.only("sweep/0")["out"] + "/where").strip()
    (shelf,) = in_home(home)
    assert os.path.dirname(where) == f"{os.path.realpath(home.path)}/code/{shelf}"
    assert os.stat(where).st_mode & 0o077 == 0
    assert not os.path.exists(root + "/sweep/_snapshot")
    home.run("clean", "sweep", "--results", "--yes")
    assert in_home(home) == []
    wait_until(lambda: os.listdir(root) == [], "the removal of the results")


def test_clean_of_the_history_alone_leaves_no_code_in_the_home(home):
    code(home)
    home.submit(grid("train", 1, RUNS), "--out", shared(home))
    assert home.wait() == 0 and len(in_home(home)) == 1
    home.run("clean", "sweep", "--yes")
    assert in_home(home) == [] and os.path.exists(home.work + "/shared/sweep/00/train/word")


def test_on_a_cluster_such_a_folder_is_refused(home):
    code(home)
    root = shared(home)
    path = home.file("sweep.toml", grid("train", 1, RUNS))
    said = home.run("submit", path, "--on", "slurm", "--out", root, code=2).stderr
    assert f"others can write to {root} (mode 0777), so the jobs' code isn't safe in {root}/sweep" in said
    assert "--out" in said and home.ps() == {}


def open_root(home, copy):
    os.chmod(home.work + "/runs", 0o777)
    return f"others can write to {home.work}/runs (mode 0777)"


def open_copy(home, copy):
    os.chmod(copy, 0o770)
    return f"others can write to {copy} (mode 0770)"


def put_another(home, copy):
    os.rename(copy, copy + ".own")
    shutil.copytree(copy + ".own", copy)
    os.chown(copy, OTHER, OTHER)
    return f"{copy} belongs to uid {OTHER}"


def remove(home, copy):
    shutil.rmtree(copy)
    return f"look at {copy}: No such file or directory"


@pytest.mark.parametrize("happens", [open_root, open_copy, pytest.param(put_another, marks=ROOT), remove])
def test_a_copy_that_others_may_have_changed_is_refused_at_each_start(home, happens):
    code(home)
    home.close_gate()
    sweep = grid("train", 3, RUNS)
    home.submit(sweep, "--lanes", 1)
    home.until_running()
    (name,) = os.listdir(home.work + "/runs/sweep/_snapshot")
    copy = f"{home.work}/runs/sweep/_snapshot/{name}"
    why = happens(home, copy)
    home.open_gate()
    assert home.wait() == 1
    for which in ("sweep/1", "sweep/2"):
        job = home.only(which)
        assert job["class"] == "user-error" and why in job["reason"], job
        assert copy in job["reason"] and "submit the sweep again" in job["reason"]
    assert home.stamps.count("start") == 1
    home.submit(sweep)
    assert home.wait() == 0 and words(home) == ["own code"] * 3


def test_a_copy_that_was_changed_is_not_used_for_another_submit(home):
    code(home)
    home.submit(grid("train", 1, RUNS))
    assert home.wait() == 0
    where = read(home.only()["out"] + "/where").strip()
    with open(where + "/train.sh", "a") as script:
        script.write('echo changed >"$PERGPU_OUT/word"\n')
    home.submit(grid("train", 1, RUNS), "--rerun")
    assert home.wait() == 0 and words(home) == ["own code"]
    assert len(os.listdir(home.work + "/runs/sweep/_snapshot")) == 2
    with open(read(home.only()["out"] + "/where").strip() + "/by-a-job", "w"):
        pass  # what jobs add changes nothing
    home.submit(grid("train", 1, RUNS), "--rerun")
    assert home.wait() == 0 and len(os.listdir(home.work + "/runs/sweep/_snapshot")) == 2
