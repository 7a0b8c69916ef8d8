"""What jobs report, seen by others: from outside and by each other, while they run, after kills, at the end."""
import json
import os
import subprocess
import sys

import pytest

from harness import PERGPU, grid, read, wait_until

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python")
ASKING = f"""
import sys
sys.path.insert(0, {PACKAGE!r})
import json, pergpu
def refused(function):
    try:
        function()
    except Exception as error:
        return str(error)
"""


@pytest.fixture(autouse=True)
def program(home, package):
    home.env["PERGPU_BIN"] = PERGPU  # for who looks on from outside


def sweep(home, text, runs=3, extra="", **options):
    """Submits runs i = 0, 1, … of this program; `wait()` in it is for the gate."""
    waiting = "def wait():\n    file = open(os.environ['GATE'])\n    fcntl.flock(file, fcntl.LOCK_SH)\n"
    home.script("train.py", f"#!{sys.executable}\nimport fcntl, json, os, signal, sys\nimport pergpu\n{waiting}{text}")
    return home.submit(grid("train", runs, f'command = ["{home.work}/train.py"]\n{extra}'), "--lanes", runs, **options)


def asked(home, expression):
    """What it is for somebody outside of all jobs."""
    code = f"{ASKING}print(json.dumps({expression}))"
    done = subprocess.run([sys.executable, "-c", code], env=home.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


REPORTING = """
i = pergpu.config().i
for step in range(10):
    pergpu.report(step=step, loss=(step - 6) ** 2 + i)
print("reported", flush=True)
"""


def all_have_reported(home, runs=3):
    jobs = home.json("show", "sweep")["jobs"]
    wait_until(lambda: sum("reported" in read(job["log"], "") for job in jobs) == runs, "the reports")
    return jobs


def test_they_are_known_outside_and_to_each_other_while_the_jobs_run(home):
    home.close_gate()
    sweep(home, REPORTING + """
wait()
best = pergpu.best("loss")
print(json.dumps([best.run, best.params, best.value, best.at_step, best.alive]))
print(json.dumps([len(pergpu.metrics()), [job["loss"] for job in pergpu.metrics(files=False)]]))
""")  # fmt: skip
    jobs = all_have_reported(home)
    best = asked(home, "(lambda b: [b.run, b.params, b.out, b.value, b.at_step, b.alive, b.step, b.job])(pergpu.best('loss', sweep='sweep'))")
    assert best == [jobs[0]["run"], {"i": 0}, jobs[0]["out"], 0, 6, True, "train", jobs[0]["id"]]
    last = asked(home, "(lambda b: [b.params, b.value, b.at_step])(pergpu.best('loss', 'max', at='last'))")
    assert last == [{"i": 2}, 11, 9]
    home.open_gate()
    assert home.wait() == 0
    for job in jobs:
        first, second = read(job["log"]).splitlines()[1:]
        assert json.loads(first)[:4] == [jobs[0]["run"], {"i": 0}, 0, 6]
        assert json.loads(second)[0] == 3 and json.loads(second)[1]


def test_after_kills_and_at_the_end_it_is_the_same_as_in_the_files(home):
    home.close_gate()
    sweep(home, REPORTING + """
while len(pergpu.metrics(files=False)) < 3:  # so that somebody keeps the table
    os.sched_yield()
if i < 2:
    pergpu.report(step=10, loss=-1 - i)  # in the file it is not before the kill
    os.kill(os.getpid(), signal.SIGKILL)
wait()
""")  # fmt: skip
    jobs = all_have_reported(home)
    wait_until(lambda: sorted(home.states("sweep").values()) == ["failed", "failed", "running"], "the kills")
    best = "(lambda b: [b.params, b.value, b.at_step, b.alive])(pergpu.best('loss', sweep='sweep'))"
    assert asked(home, best) == [{"i": 1}, -2, 10, False], "what was reported before a kill counts"
    alive = asked(home, "{job.run: [job.alive, job.state, job['loss']] for job in pergpu.metrics('sweep')}")
    assert alive == {
        jobs[0]["run"]: [False, "failed", -1],
        jobs[1]["run"]: [False, "failed", -2],
        jobs[2]["run"]: [True, "running", 11],
    }
    home.open_gate()
    home.wait()
    rows = [json.loads(line) for line in home.run("export", "--jsonl", "sweep").stdout.splitlines()]
    exported = {row["run"]: row["last_metrics"] for row in rows}
    assert asked(home, "{job.run: job for job in pergpu.metrics('sweep')}") == exported
    assert asked(home, "pergpu.best('loss', 'max').value") == 38


def test_a_coordinator_that_is_killed_changes_nothing(home):
    home.close_gate()
    sweep(home, REPORTING + "wait()\nprint(pergpu.best('loss').run)")
    jobs = all_have_reported(home)
    home.kill_coordinator()
    assert asked(home, "pergpu.best('loss', sweep='sweep').params") == {"i": 0}
    home.open_gate()
    assert home.wait() == 0
    assert [read(job["log"]).splitlines()[-1] for job in jobs] == 3 * [jobs[0]["run"]]


def test_the_next_attempt_goes_on_and_other_sweeps_do_not_mix(home):
    sweep(home, """
attempt = int(os.environ["PERGPU_ATTEMPT"])
pergpu.report(attempt=attempt, loss=attempt)
pergpu.flush()
if attempt < 3:
    os.kill(os.getpid(), signal.SIGKILL)
""", 1, "retries = {max = 2, on = ['signal'], delay = '0s'}")  # fmt: skip
    assert home.wait() == 0
    sweep(home, "pergpu.report(loss=0)", 1, name="other.toml")
    assert home.wait() == 0
    seen = asked(home, "[[job.attempt, job['loss'], job.best('loss'), job.best('loss', 'max')] for job in pergpu.metrics('sweep')]")
    assert seen == [[3, 3, [1, None], [3, None]]]
    assert asked(home, "pergpu.best('loss').value") == 0, "of the last sweep"


def test_jobs_that_are_no_python_count_by_their_files(home):
    home.script("write", """#!/bin/sh
echo '{"loss": '$PERGPU_PARAM_I'.5, "step": 3}' >>$PERGPU_METRICS
""")
    home.submit(grid("train", 2, "command = ['write']"), "--lanes", 2)
    assert home.wait() == 0
    assert asked(home, "(lambda b: [b.params, b.value, b.at_step])(pergpu.best('loss', 'max'))") == [{"i": 1}, 1.5, 3]


def test_what_cannot_be_answered_is_told(home):
    sweep(home, REPORTING, 1)
    assert home.wait() == 0
    said = asked(home, """[refused(one) for one in (
        lambda: pergpu.best("los"), lambda: pergpu.best("loss", step="x"), lambda: pergpu.metrics(files=False))]""")
    assert said == [
        "no job has reported a number 'los'; the reported numbers are: loss, step",
        "no job of the step 'x' has reported a number 'loss'; the reported numbers are: none",
        "metrics(files=False) reads only the job's own sweep, but this process isn't a job",
    ]
