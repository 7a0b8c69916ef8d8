"""`snapshot`: jobs run the code as it was when they were submitted."""
import json
import os

from harness import grid, read, wait_until

RUNS = """snapshot = ["*.sh", "lib", "data"]
command = ["./train.sh"]"""


def code(home, word):
    home.script("train.sh", '#!/bin/sh\n. ./lib/words.sh\nstamp\necho "$WORD" >"$PERGPU_OUT/word"; pwd >"$PERGPU_OUT/where"\n')
    home.file("lib/words.sh", f"WORD={word}\n")
    home.file("lib/.hidden", "x")
    home.file("lib/__pycache__/x.pyc", "x")
    home.file("big/of-no-matter.sh", "x")
    home.file("elsewhere/rows.csv", "1,2\n")
    if not os.path.islink(home.work + "/data"):
        os.symlink(home.work + "/elsewhere", home.work + "/data")


def words(home):
    return [read(job["out"] + "/word").strip() for job in home.ps("sweep").values()]


def copies(home):
    return sorted(os.listdir(home.work + "/runs/sweep/_snapshot"))


def test_an_edit_changes_nothing_for_jobs_that_wait(home):
    code(home, "before")
    home.close_gate()
    home.submit(grid("train", 3, RUNS), "--lanes", 1)
    home.until_running(1)
    code(home, "after")
    os.remove(home.work + "/train.sh")
    home.open_gate()
    assert home.wait() == 0
    assert words(home) == ["before"] * 3
    (copy,) = copies(home)
    folder = f"{home.work}/runs/sweep/_snapshot/{copy}"
    assert read(home.only("sweep/2")["out"] + "/where").strip() == folder
    assert home.json("show", "sweep/2")["jobs"][0]["cwd"] == folder
    assert json.loads(read(home.only("sweep/2")["out"] + "/attempt.json"))["cwd"] == folder
    assert sorted(os.listdir(folder)) == ["data", "lib", "train.sh"] and os.listdir(folder + "/lib") == ["words.sh"]
    assert os.readlink(folder + "/data") == os.path.realpath(home.work + "/elsewhere") and os.access(folder + "/train.sh", os.X_OK)


def test_the_next_submit_takes_the_code_as_it_is_then(home):
    code(home, "first")
    sweep = grid("train", 2, RUNS + "\nbreaker = 0")
    home.submit(sweep)
    assert home.wait() == 0
    home.submit(sweep)
    assert len(copies(home)) == 1, "the same code is copied once"
    code(home, "second")
    home.submit(sweep, "--rerun")
    assert home.wait() == 0
    assert words(home) == ["second"] * 2 and len(copies(home)) == 2


def test_changed_code_is_told_of(home):
    code(home, "first")
    sweep = grid("train", 2, RUNS)
    home.submit(sweep)
    assert home.wait() == 0
    (first,) = home.json("show", "sweep/0")["jobs"][0]["attempts"]
    assert list(first["files"]) == ["./train.sh"]
    home.script("train.sh", "#!/bin/sh\nexit 0\n")
    home.submit(grid("train", 3, RUNS))
    assert home.wait() == 0
    assert any("./train.sh has changed" in warning for warning in home.only("sweep/2")["warnings"])


def test_a_folder_below_is_where_the_jobs_run(home):
    home.script("project/train.sh", '#!/bin/sh\npwd >"$PERGPU_OUT/where"\n')
    home.submit('[steps.a]\ncwd = "project"\nsnapshot = ["**/*.sh"]\ncommand = ["./train.sh"]\n')
    assert home.wait() == 0
    (copy,) = copies(home)
    assert read(home.only()["out"] + "/where").strip() == f"{home.work}/runs/sweep/_snapshot/{copy}/project"


def test_what_names_nothing_or_too_much_is_refused_and_nothing_starts(home):
    code(home, "x")
    sweep = home.file("sweep.toml", grid("train", 1, 'snapshot = ["*.sh", "modles/*.py"]\ncommand = ["./train.sh"]'))
    for rehearsal in ((), ("--dry-run",)):
        said = home.run("run", sweep, *rehearsal, code=2).stderr
        assert f'snapshot of step train: "modles/*.py" matches no file in {home.work}' in said
    with open(home.work + "/huge.sh", "w") as huge:
        huge.truncate(2 << 30)
    sweep = home.file("sweep.toml", grid("train", 1, 'snapshot = ["*.sh"]\ncommand = ["./train.sh"]'))
    assert "1GiB" in home.run("submit", sweep, code=2).stderr
    assert not os.path.exists(home.work + "/runs") and home.ps() == {}


def test_the_results_of_the_sweep_are_no_part_of_its_code(home):
    code(home, "x")
    for name in ("one", "two"):
        home.submit(grid("train", 1, 'snapshot = ["**"]\ncommand = ["./train.sh"]'), name=name + ".toml")
        assert home.wait(name) == 0
    (copy,) = os.listdir(home.work + "/runs/two/_snapshot")
    assert "runs" not in os.listdir(f"{home.work}/runs/two/_snapshot/{copy}")


def test_clean_removes_the_copies_with_the_results(home):
    code(home, "x")
    home.submit(grid("train", 1, RUNS))
    assert home.wait() == 0
    home.run("clean", "sweep", "--results", "--yes")
    wait_until(lambda: not os.path.exists(home.work + "/runs/sweep"), "its removal")
    assert read(home.work + "/elsewhere/rows.csv") == "1,2\n"
