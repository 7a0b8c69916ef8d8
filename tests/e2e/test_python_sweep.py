"""Sweeps from Python: `pergpu.Sweep`, what becomes of one, and the same file typed."""
import json
import os
import signal
import subprocess
import sys

import pytest

import harness
from harness import read

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python")

TRAIN = """#!/bin/sh
echo "{\\"step\\": 1, \\"loss\\": $PERGPU_PARAM_LR}" >"$PERGPU_METRICS"
test "$PERGPU_PARAM_SEED" != 2
"""
EVALUATE = """#!/bin/sh
echo "{\\"step\\": 9, \\"fid\\": 1$PERGPU_PARAM_SEED}" >"$PERGPU_METRICS"
"""
STEPS = 'steps={"train": dict(command="./train"), "evaluate": dict(command="./evaluate", needs=["train"])}'


def python(home, text, code=0, **options):
    """The output of a program that has imported pergpu, in the work folder."""
    process = subprocess.run(
        [sys.executable, "-c", "import json, os, sys\nimport pergpu\n" + text], cwd=home.work, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=240, env={**home.env, "PYTHONPATH": PACKAGE, "PERGPU_BIN": harness.PERGPU,
        "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}, **options,
    )  # fmt: skip
    assert process.returncode == code, process.stdout
    return process.stdout


def scripts(home):
    home.script("train", TRAIN)
    home.script("evaluate", EVALUATE)


def test_it_runs_and_gives_a_row_a_run(home):
    scripts(home)
    out = python(home, f"""
sweep = pergpu.Sweep("s", runs=pergpu.grid(lr=[0.1, 0.01], seed=[1, 3]), {STEPS})
rows = sweep.run(lanes=2, check=True)
print("---")
print(json.dumps([[row.index, row.run, row.state, dict(row), row.out("train")] for row in rows]))
print(rows.best("fid").run, rows.best("fid", mode="max")["seed"], rows.best("loss")["lr"])
""")  # fmt: skip
    shown, _, told = out.partition("---\n")
    assert "s: 8 jobs: 8 new" in shown and shown.count(" done after ") == 8, shown
    rows, best = told.splitlines()[:2]
    rows = json.loads(rows)
    assert [row[0] for row in rows] == [0, 1, 2, 3] and {row[2] for row in rows} == {"done"}
    assert rows[1][3] == {"lr": 0.1, "seed": 3, "train.step": 1, "evaluate.step": 9, "loss": 0.1, "fid": 13}
    assert rows[1][4] == f"{home.work}/runs/s/{rows[1][1]}/train"
    assert best == f"{rows[0][1]} 3 0.01"


def test_the_same_file_from_the_command_line_finds_all_done(home):
    scripts(home)
    python(home, f"""
sweep = pergpu.Sweep("s", runs=[dict(lr=1e-5, seed=1, note="a \\"b\\"\\n", tags=["x", 1], on=True)], {STEPS})
assert sweep.submit(lanes=1)["new"] == 2
sweep.to_toml("s.toml")
assert [row.state for row in sweep.wait()] == ["done"]
""")  # fmt: skip
    again = home.json("submit", "s.toml")
    assert (again["new"], again["kept"]) == (0, 2)
    params = home.json("show", "s/0/train")["jobs"][0]["params"]
    assert params == {"lr": 1e-05, "seed": 1, "note": 'a "b"\n', "tags": ["x", 1], "on": True}


def test_a_run_that_failed_is_a_row_or_an_exception(home):
    scripts(home)
    out = python(home, f"""
sweep = pergpu.Sweep("s", runs=pergpu.grid(lr=[0.5], seed=[1, 2]), {STEPS})
rows = sweep.run(lanes=1)
print("---", [row.state for row in rows], [row.run for row in rows.failed], rows.best("fid")["seed"])
try:
    sweep.run(lanes=1, check=True)
except pergpu.SweepFailed as error:
    print("---", error, len(error.results))
""")  # fmt: skip
    told = [line for line in out.splitlines() if line.startswith("---")]
    assert told[0] == "--- ['done', 'failed'] ['01-seed=2'] 1"
    assert told[1].startswith("--- sweep s: 1 of 2 runs did not succeed: 01-seed=2/train: exit code 1") and told[1].endswith(" 2")


def test_ctrl_c_holds_what_is_queued_and_comes_at_the_end(home):
    home.close_gate()
    text = 'import pergpu\npergpu.Sweep("s", runs=pergpu.grid(i=[1, 2]), steps={"a": dict(command="stamp")}).run(lanes=1)'
    env = {**home.env, "PYTHONPATH": PACKAGE, "PERGPU_BIN": harness.PERGPU, "PYTHONDONTWRITEBYTECODE": "1"}
    with harness.starting:
        process = subprocess.Popen([sys.executable, "-c", text], cwd=home.work, env=env, text=True, start_new_session=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        harness.started.add(process.pid)
    home.until_running()
    os.killpg(process.pid, signal.SIGINT)
    harness.wait_until(lambda: sorted(home.states("s").values()) == ["held", "running"], "the queued one to be held")
    assert process.poll() is None
    home.open_gate()
    out, _ = process.communicate(timeout=harness.DEADLINE)
    assert process.returncode == -signal.SIGINT and out.rstrip().endswith("KeyboardInterrupt"), out
    assert sorted(home.states("s").values()) == ["done", "held"]


def test_mistakes_are_those_of_the_sweep_file(home):
    out = python(home, 'pergpu.Sweep("s", steps={"a": dict(comand="true")}).submit()', code=1)
    assert "CommandFailed" in out and "<stdin>:4:1" in out and "did you mean `command`" in out
    out = python(home, 'pergpu.Sweep("s", steps={"a": dict(command="true", timeout=None)}).submit()', code=1)
    assert "TypeError: [steps.a] timeout is None, which a sweep file cannot hold" in out
    out = python(home, 'pergpu.results("nothing")', code=1)
    assert "CommandFailed" in out and "nothing" in out
    assert home.ps() == {}


def test_rows_that_were_taken_out_are_none_of_the_sweep_any_more(home):
    scripts(home)
    out = python(home, f"""
pergpu.Sweep("s", runs=pergpu.grid(lr=[0.5], seed=[1, 2]), {STEPS}).run(lanes=1)
sweep = pergpu.Sweep("s", runs=pergpu.grid(lr=[0.5], seed=[1, 3]), {STEPS})
print("---", [row["seed"] for row in sweep.run(lanes=1, check=True)], len(pergpu.results("s")))
sweep.submit(lanes=1)
print("---", [row["seed"] for row in sweep.wait()])
""")  # fmt: skip
    assert [line for line in out.splitlines() if line.startswith("---")] == ["--- [1, 3] 2", "--- [1, 3]"]


def test_what_was_taken_out_of_the_file_is_not_listed(home):
    text = "[grid]\nx = [%s]\n[steps.a]\ncommand = ['true']\n"
    home.submit(text % "1, 2" + "[steps.b]\ncommand = ['true']\n", name="s.toml")
    home.wait()
    home.submit(text % "2, 3", name="s.toml")
    home.wait()
    jobs = home.json("ps", "-a")["jobs"]
    assert {(job["index"], job["step"]): job["listed"] for job in jobs} == {
        (0, "a"): False, (1, "a"): True, (0, "b"): False, (1, "b"): False, (2, "a"): True}  # fmt: skip
    exported = [json.loads(line) for line in home.run("export", "--jsonl").stdout.splitlines()]
    assert [job["listed"] for job in exported] == [job["listed"] for job in jobs]
    shown = "print([(row.index, row['x'], [job['step'] for job in row.jobs]) for row in pergpu.results('s')])"
    assert python(home, shown).strip() == "[(1, 2, ['a']), (2, 3, ['a'])]"
    home.submit(text % "1, 2, 3", name="s.toml")
    assert [job["listed"] for job in home.ps("s/*/a").values()] == [True] * 3


def test_two_sweeps_of_one_name_in_two_folders(home):
    out = python(home, """
for folder in ("a", "b"):
    os.mkdir(folder)
    sweep = pergpu.Sweep("s", runs=[{"x": folder}], steps={"a": dict(command="true")}, folder=folder)
    print("---", [(row["x"], row.out().startswith(os.getcwd() + "/" + folder)) for row in sweep.run(lanes=1, check=True)])
""")  # fmt: skip
    assert [line for line in out.splitlines() if line.startswith("---")] == ["--- [('a', True)]", "--- [('b', True)]"]


def test_texts_of_any_letters_come_back_as_they_were(home):
    out = python(home, r"""
texts = ["a\u2028b", "c\x85d", "é\x7f\x01", "\U0001f600 'q' \"\"\" \\", "=#,[]{}", " "]
rows = pergpu.Sweep("s", runs=[{"x": text} for text in texts], steps={"a": dict(command="true")}).run(lanes=1)
print("---", [row["x"] for row in rows] == texts)
""")  # fmt: skip
    assert out.splitlines()[-1] == "--- True"


def test_what_cannot_be_a_sweep_is_said_before_anything_is_asked(home):
    for text, words in (
        ('pergpu.Sweep("s", steps={}, runs=[])', "ValueError: sweep s: `runs` is empty"),
        ('pergpu.grid(m="sgd")', "TypeError: grid: m is 'sgd'; expected a list of values, such as ['sgd']"),
        ('pergpu.grid(lr=0.1)', "TypeError: grid: lr is 0.1"),
        ('pergpu.Sweep("s", steps={"a": dict(command="true")}).run(lane=1)', "TypeError: no option 'lane'; did you mean 'lanes'?"),
        ('pergpu.Sweep("s", steps={1: {}}).to_toml()', "TypeError: 1 is used as a name; names must be strings"),
        ('pergpu.Sweep("s", steps={}, runs=[{"x": float("inf")}]).to_toml()', "TypeError: runs[0].x is inf"),
        ('pergpu.Sweep("s", steps={}, runs=[{"x": (i for i in "a")}]).to_toml()', "TypeError: runs[0].x is generator"),
        ('pergpu.Sweep("s", steps={}, runs=[{"x": "\\ud800"}]).to_toml()', "can't be encoded as UTF-8"),
    ):  # fmt: skip
        assert words in python(home, text, code=1)
    assert home.ps() == {}


def test_results_of_any_sweep_by_its_name_also_while_it_runs(home):
    home.close_gate()
    home.submit('name = "typed"\n[grid]\ni = [1, 2]\n[steps.once]\nonce = true\ncommand = "true"\n[steps.a]\ncommand = ["stamp"]\n',
                "--lanes", 3)  # fmt: skip
    home.until_running(2)
    home.wait("typed/_once")
    out = python(home, """
rows = pergpu.results("typed")
print(json.dumps([[row.index, row.run, row.state, dict(row)] for row in rows]))
try:
    rows.best("fid")
except LookupError as error:
    print(error)
""")  # fmt: skip
    rows, error = out.splitlines()
    rows = json.loads(rows)
    assert [row[:3] for row in rows] == [[0, "00-i=1", "running"], [1, "01-i=2", "running"], [None, "_once", "done"]]
    assert "no run that is done has a number 'fid'; the reported numbers are: none" in error
    home.open_gate()
    home.wait()


def test_nan_is_a_number_and_never_the_best(home):
    home.script("train", f"#!{sys.executable}\nimport pergpu\ncfg = pergpu.config()\npergpu.report(loss=float(cfg.loss))\n")
    out = python(home, """
rows = pergpu.Sweep("s", runs=pergpu.grid(loss=["nan", "2", "-inf"]), steps={"a": dict(command="./train")}).run(lanes=1)
print("---", [row["a.loss"] for row in rows], rows.best("a.loss").index, rows.best("a.loss", mode="max").index)
""")  # fmt: skip
    assert out.splitlines()[-1] == "--- [nan, 2.0, -inf] 2 1"
    job = home.ps("s")["01-loss=2/a"]
    assert read(job["out"] + "/metrics.jsonl") == '{"loss": 2.0}\n'


def test_pandas_gets_a_frame(home):
    pytest.importorskip("pandas")
    out = python(home, """
pergpu.Sweep("s", runs=pergpu.grid(i=[1, 2]), steps={"a": dict(command="true")}).run(lanes=1)
frame = pergpu.results("s").frame()
print(frame.shape, list(frame.columns), list(frame.index))
""")  # fmt: skip
    assert out.splitlines()[-1] == "(2, 3) ['index', 'state', 'i'] ['00-i=1', '01-i=2']"
