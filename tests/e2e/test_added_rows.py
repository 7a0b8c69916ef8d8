"""Rows that are added to a sweep (`--add`)."""
from harness import wait_until
from test_archive import restart

STEP = '[steps.train]\ncommand = ["stamp"]\n'


def rows(*values, steps=STEP):
    return f"[grid]\ni = {list(values)}\n{steps}"


def test_added_rows_run_beside_the_others_which_stay_as_they_are(home):
    home.close_gate()
    first = home.submit(rows(0, 1, 2), "--lanes", 1)
    home.until_running()
    home.submit(rows(0, 1), "--lanes", 1)  # 2 is taken out
    reply = home.submit(rows(1, 3), "--lanes", 1, "--add")
    assert (reply["new"], reply["kept"], reply["dropped"]) == (1, 1, 0)
    assert reply["sweep_id"] == first["sweep_id"] and reply["jobs"] == [2, 4]
    home.open_gate()
    assert home.wait() == 0
    assert home.states() == {
        "00-i=0/train": "done", "01-i=1/train": "done", "02-i=2/train": "cancelled", "03-i=3/train": "done",
    }  # fmt: skip
    # The whole file again: what it does not name is taken out, whoever added it.
    assert home.submit(rows(0, 1, 4), "--lanes", 1)["new"] == 1
    assert home.wait() == 0


def test_a_sweep_that_is_not_there_is_made_and_one_that_has_ended_grows(home):
    assert home.submit(rows(0), "--add")["new"] == 1
    assert home.wait() == 0
    restart(home)
    assert home.submit(rows(1), "--add")["jobs"] == [2]
    assert home.run("run", home.file("sweep.toml", rows(2)), "--add").stdout.count("done") == 4
    assert home.states() == {"00/train": "done", "01-i=1/train": "done", "02-i=2/train": "done"}
    run = ("run", "--name", "line", "--add", "-g")
    for value, lines in (("a", 1), ("b", 2)):
        shown = home.run(*run, f"x={value}", "--", "echo", "{x}").stdout
        assert f"line: {lines} done\n" in shown
    assert "--name" in home.run("run", "--add", "--", "true", code=2).stderr


def test_where_the_others_could_not_stay_as_they_are_it_is_refused(home):
    home.submit(rows(0, steps=STEP + '[steps.after]\nneeds = ["train"]\ncommand = ["true"]\n'))
    home.wait()
    before = home.json("ps", "-a")
    all_runs = '[steps.best]\nonce = true\nneeds = ["train:all"]\ncommand = ["true"]\n'
    for steps, words in (
        (STEP, "the file lacks step after, which sweep sweep has"),
        (STEP.replace("stamp", "true") + '[steps.after]\nneeds = ["train"]\ncommand = ["true"]\n', "`command` of step train"),
        (STEP + all_runs, "step best needs train of all runs of the sweep"),
        (STEP + all_runs.replace("train:all", "train:ended"), "step best needs train of all runs"),
        ('[steps.list]\nonce = true\ncommand = ["echo", "{runs}"]\n', "step list is given all runs of the sweep ({runs})"),
    ):  # fmt: skip
        path = home.file("sweep.toml", rows(1, steps=steps))
        for dry in ([], ["--dry-run"]):
            shown = home.run("submit", path, "--add", *dry, code=2).stderr
            assert words in shown and "--add" in shown, shown
    assert home.json("ps", "-a") == before


def test_a_dry_run_foretells_what_is_added(home):
    home.close_gate()
    home.submit(rows(0, 1), "--lanes", 3)
    home.until_running(2)
    path = home.file("sweep.toml", rows(1, 2, 3))
    told = home.json("submit", path, "--lanes", 3, "--add", "--dry-run")
    assert [run["run"] for run in told["runs"]] == ["01-i=1", "02-i=2", "03-i=3"]
    assert [start["job"] for start in told["starts"]] == ["02-i=2/train"]
    assert (told["new"], told["kept"], told["dropped"], told["estimated"]) == (2, 1, 0, False)
    assert len(home.ps()) == 2
    home.submit(rows(1, 2, 3), "--lanes", 3, "--add")
    home.until_running(3)
    told = home.json("submit", home.file("sweep.toml", rows(4)), "--lanes", 4, "--add", "--dry-run")
    assert told["starts"] == [] and [run["run"] for run in told["runs"]] == ["04-i=4"]  # 3 goes first
    assert [name for name, state in home.states().items() if state == "queued"] == ["03-i=3/train"]
    home.open_gate()
    assert home.wait() == 0
    home.run("coordinator", "stop")
    wait_until(lambda: home.coordinator() is None, "its end")
    shown = home.run("submit", path, "--add", "--dry-run").stderr
    assert "the sweep's own runs, if there are some, come before these" in shown
