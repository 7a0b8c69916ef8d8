"""A sweep with failures and retries, as other programs read it."""
import csv
import json
import os

from harness import read, wait_until
from test_terminal import Terminal

SWEEP = r"""
[grid]
lr = [0.1, 0.01]
opt = ['a,"b"', '<script>alert(1)</script>']

[steps.train]
retries = 1
shell = '''
echo "{\"step\": 1, \"loss\": ${PERGPU_PARAM_LR}23456789, \"grad\": NaN}" >>"$PERGPU_METRICS"
case $PERGPU_ATTEMPT$PERGPU_PARAM_LR in 10.1) exit 4 ;; esac
'''

[steps.evaluate]
needs = ["train:all"]
shell = '''
echo "no such <model>"
case $PERGPU_PARAM_LR in 0.01) exit 3 ;; esac
'''
"""


def ended(home):
    """8 jobs; the first attempts of two `train` and the only ones of two `evaluate` failed."""
    reply = home.submit(SWEEP, "--lanes", 2, name="s.toml")
    assert home.wait() == 1
    return reply["jobs"]


def exported(home, kind, *selectors):
    home.run("export", kind, *selectors, "-o", "out")
    with open(home.work + "/out", newline="") as file:
        return file.read()


def test_csv_has_a_row_for_each_job(home):
    jobs = ended(home)
    text = exported(home, "--csv")
    assert text.count("\r\n") == text.count("\n") == 9
    rows = list(csv.DictReader(text.splitlines()))
    assert [int(row["job"]) for row in rows] == sorted(jobs)
    train = [row for row in rows if row["step"] == "train"]
    assert {row["params.opt"] for row in train} == {'a,"b"', "<script>alert(1)</script>"}
    for row in train:
        assert row["metrics.loss"] == row["params.lr"] + "23456789"
        assert row["metrics.grad"] == "nan"
        assert row["attempts"] == ("2" if row["params.lr"] == "0.1" else "1")
        assert float(row["duration_s"]) >= 0 and row["lane"].startswith("lane")
    evaluate = [row for row in rows if row["step"] == "evaluate"]
    assert sorted(row["state"] + row["exit"] for row in evaluate) == ["done0", "done0", "failed3", "failed3"]
    assert all(row["metrics.loss"] == "" for row in evaluate)
    assert len(exported(home, "--csv", "s/0/train").splitlines()) == 2


def test_jsonl_tells_of_every_attempt(home):
    ended(home)
    jobs = [json.loads(line) for line in exported(home, "--jsonl", "s").splitlines()]
    assert len(jobs) == 8 and all(job["schema"] == 1 for job in jobs)
    retried = [job for job in jobs if len(job["attempts"]) == 2]
    assert [job["params"]["lr"] for job in retried] == [0.1, 0.1]
    for job in retried:
        first, second = job["attempts"]
        assert (first["outcome"], first["exit"], first["attempt"]) == ("exit", 4, 1)
        assert (second["outcome"], second["exit"], second["attempt"]) == ("ok", 0, 2)
        assert first["started_at"] <= first["ended_at"] <= second["started_at"]
        assert first["lane"] and first["cpus"] >= 1
        assert job["last_metrics"] == {"step": 1, "loss": 0.123456789, "grad": "nan"}
        assert job["needs"] == []
    assert {tuple(job["needs"]) for job in jobs} == {(), ("train:all",)}


def test_attempts_whose_folder_is_gone_are_still_counted(home):
    ended(home)
    for job in home.ps().values():
        for name in os.listdir(job["out"]):
            os.unlink(f"{job['out']}/{name}")
    jobs = [json.loads(line) for line in exported(home, "--jsonl").splitlines()]
    first, second = next(job["attempts"] for job in jobs if len(job["attempts"]) == 2)
    assert first["outcome"] == "unknown" and first["started_at"] is None
    assert second["outcome"] == "ok" and second["started_at"]


def test_threads_of_a_trace_are_lanes_and_never_overlap(home):
    ended(home)
    events = json.loads(exported(home, "--trace"))["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert set(names.values()) <= {"lane0", "lane1"}
    attempts = [event for event in events if event["ph"] == "X"]
    assert len(attempts) == 10
    free = dict.fromkeys(names, 0)
    for event in sorted(attempts, key=lambda e: (e["ts"], e["dur"])):
        assert event["ts"] >= free[event["tid"]] and event["dur"] >= 0
        free[event["tid"]] = event["ts"] + event["dur"]
    assert min(event["ts"] for event in attempts) == 0
    outcomes = [event["args"]["outcome"] for event in attempts]
    assert outcomes.count("exit") == 4 and outcomes.count("ok") == 6


def test_a_job_that_runs_is_exported_up_to_now(home):
    home.close_gate()
    home.submit('[steps.a]\ncommand = ["stamp"]\n')
    wait_until(lambda: home.only()["state"] == "running", "its start")
    (job,) = map(json.loads, exported(home, "--jsonl").splitlines())
    assert job["state"] == "running" and job["attempts"][0]["outcome"] == "running"
    (event,) = [e for e in json.loads(exported(home, "--trace"))["traceEvents"] if e["ph"] == "X"]
    assert event["dur"] >= 0
    home.open_gate()
    home.wait()


def test_what_is_asked_wrongly_writes_nothing(home):
    ended(home)
    home.run("export", code=2)
    home.run("export", "--csv", "--jsonl", code=2)
    home.run("export", "--csv", "nobody", "-o", "none.csv", code=4)
    assert not os.path.exists(home.work + "/none.csv")
    assert "is a folder" in home.run("export", "--csv", "-o", home.work, code=2).stderr
    os.mkfifo(home.work + "/fifo")
    assert "not a regular file" in home.run("export", "--csv", "-o", "fifo", code=2).stderr
    assert "no/such" in home.run("export", "--csv", "-o", "no/such/file", code=1).stderr
    home.file("there.csv", "old")
    os.symlink("there.csv", home.work + "/link")
    home.run("export", "--csv", "-o", "link")
    assert os.path.islink(home.work + "/link")
    assert read(home.work + "/there.csv").startswith("job,sweep,")


def test_on_a_terminal_control_characters_are_made_visible(home):
    home.submit('[grid]\nname = ["\\u001b]0;evil\\u0007"]\n[steps.a]\ncommand = ["true"]\n')
    home.wait()
    assert "\033]0;evil\a" in exported(home, "--csv")  # as it was written
    for kind in ("--csv", "--jsonl", "--trace"):
        terminal = Terminal(home, "export", kind)
        assert terminal.ended() == 0
        assert "evil" in terminal.text and "\033]" not in terminal.text
