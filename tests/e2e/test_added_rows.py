"""Rows that are added to a sweep (`--add`), and who watches it while it grows."""
import contextlib
import json

from harness import grid, wait_until
from test_archive import restart
from test_large_sweeps import RUNS, submit
from test_security import connect

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
    assert [job["listed"] for job in home.ps().values()] == [True, True, False, True]
    home.open_gate()
    assert home.wait() == 0
    assert home.states() == {
        "00-i=0/train": "done", "01-i=1/train": "done", "02-i=2/train": "cancelled", "03-i=3/train": "done",
    }  # fmt: skip
    # The whole file again: what it does not name is taken out, whoever added it.
    assert home.submit(rows(0, 1, 4), "--lanes", 1)["new"] == 1
    assert home.wait() == 0
    assert [job["listed"] for job in home.ps().values()] == [True, True, False, False, True]


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
        ('[steps.list]\nonce = true\ncommand = ["echo", "{runs}"]\n', "step list uses all runs of the sweep ({runs})"),
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
    assert "1 new jobs, 0 queued again, 0 kept, 4 others stay; as in the last submit: --lanes 3\n" == shown


class Watcher:
    """A stream of what happens to a sweep while it grows."""

    def __init__(self, home, sweep, **more):
        self.stream = connect(home, hello=True)
        self.stream.settimeout(60)
        request = {"op": "watch", "sweep_id": sweep, "grows": True, **more}
        self.stream.sendall((json.dumps(request) + "\n").encode())
        self.lines = self.stream.makefile()
        self.first = json.loads(self.lines.readline())
        self.state = {job["id"]: job["state"] for job in self.first.get("jobs", [])}
        self.told = []

    def until(self, happened):
        while not happened(self.state):
            event = json.loads(self.lines.readline())
            assert event["event"] in ("job", "sweep", "lanes", "remaining")
            if event["event"] == "job":
                self.state[event["job"]["id"]] = event["job"]["state"]
                self.told.append(event["job"]["id"])

    def close(self):
        self.lines.close()
        self.stream.close()


def done(*jobs):
    return lambda state: all(state.get(job) == "done" for job in jobs)


def test_who_watches_a_sweep_that_grows_is_told_of_later_jobs_and_of_no_end(home):
    sweep = home.submit(rows(0, 1))["sweep_id"]
    with contextlib.closing(Watcher(home, sweep)) as watcher:
        assert [job["id"] for job in watcher.first["jobs"]] == [1, 2]
        watcher.until(done(1, 2))
        other = home.submit(grid("a", 1, 'command = ["true"]'), name="other.toml")["jobs"]
        home.submit(rows(2, 3), "--add")
        watcher.until(done(4, 5))
        home.submit(rows(0, 1, 2, 3, 4))  # the whole file again
        watcher.until(done(6))
        home.run("wait", "other")
        assert not set(other) & set(watcher.state)
    with contextlib.closing(Watcher(home, sweep, without_jobs=True, without_runs=True)) as watcher:
        assert watcher.first["jobs"] == watcher.first["sweep"]["runs"] == []
        assert watcher.first["sweep"]["counts"] == {"done": 5}
        home.run("submit", home.file("sweep.toml", rows(4, 5)), "--add", "--rerun")
        watcher.until(done(6, 7))
        assert set(watcher.state) == {6, 7}
    refused = {"op": "watch", "sel": ["@"], "grows": True}
    with contextlib.closing(connect(home, hello=True)) as stream:
        stream.sendall((json.dumps(refused) + "\n").encode())
        assert json.loads(stream.makefile().readline())["code"] == 2


def test_of_thousands_of_rows_only_the_added_ones_are_told(home):
    submit(home)
    with contextlib.closing(Watcher(home, 1, without_runs=True)) as watcher:
        assert len(watcher.state) == RUNS
        wait_until(lambda: home.json("coordinator", "status")["live"], "the first starts")
        more = {"name": "many", "folder": "/", "out": home.path + "/out", "columns": ["i"],
                "steps": [{"name": "train", "command": ["true"], "fake_duration": "1000s"}]}  # fmt: skip
        context = {"cwd": "/", "lanes": 1, "engine": "fake", "env": ["A=1"], "add": True}
        lines = [{"op": "submit", "runs": 3, "sweep": more, "context": context}]
        lines += [{"json": {"i": i}} for i in (RUNS - 1, RUNS, RUNS + 1)]
        with contextlib.closing(connect(home, hello=True)) as stream:
            stream.sendall("".join(json.dumps(line) + "\n" for line in lines).encode())
            reply = json.loads(stream.makefile().readline())
        assert reply["data"]["jobs"] == [RUNS, RUNS + 1, RUNS + 2], reply
        home.run("cancel", RUNS + 2)
        watcher.until(lambda state: state.get(RUNS + 2) == "cancelled")
        assert set(watcher.told) >= {RUNS, RUNS + 1, RUNS + 2} and len(watcher.told) < 20
    home.run("cancel", "many")
