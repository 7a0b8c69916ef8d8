"""The key `metrics`: where the job's metrics file is, for the job and for everyone who reads it."""
import json
import os
import re
import shlex

from harness import grid, read

WRITE = 'shell = \'echo "{\\"loss\\": 0.25}" >>"$PERGPU_METRICS"; stamp\''


def test_a_metrics_file_of_its_own_name_is_the_one_that_is_told_watched_and_read(home):
    home.close_gate()
    keys = WRITE + '\nmetrics = "{out}/scores.{attempt}.jsonl"\nmax_starting = 1\noutputs = ["{metrics}"]'
    home.submit(grid("train", 2, keys), "--lanes", 2)
    home.until_running(2)  # the first line of that file ends the start-up
    home.open_gate()
    assert home.wait() == 0
    for job in home.ps().values():
        shown = home.json("show", job["id"])
        assert job["out"] + "/scores.1.jsonl" in json.dumps(shown)
        assert read(job["out"] + "/scores.1.jsonl") == '{"loss": 0.25}\n'
        assert shown["jobs"][0]["last_metrics"] == {"loss": 0.25}
        text = home.run("show", job["id"]).stdout
        assert re.search(r"(?m)^  metrics   loss 0\.25 \([0-9a-z ]+ ago\)\n            /.*scores", text), text
    assert "0.25" in home.run("attach", "@").stdout


def test_a_relative_metrics_file_lies_where_the_job_runs_as_outputs_do(home):
    text = """
[steps.a]
cwd = "{work}"
metrics = "scores.jsonl"
outputs = ["scores.jsonl"]
command = ["sh", "-c", "pwd >scores.jsonl; echo {metrics}"]
[grid]
work = ["one", "two"]
"""
    for name in ("one", "two"):
        home.file(name + "/here", "")
    home.submit(text)
    assert home.wait() == 0
    logs = sorted(read(job["log"]) for job in home.ps().values())
    assert logs == [f"{home.work}/{name}/scores.jsonl\n" for name in ("one", "two")]


def test_scalars_for_tensorboard_are_metrics_where_there_are_no_others(home):
    """The file is one that tensorboardX wrote."""
    written = os.path.join(os.path.dirname(__file__), "../data/tensorboard/events.out.tfevents.1795266000.node1")
    copy = f'mkdir -p "$PERGPU_OUT/logs" && cp {shlex.quote(written)} "$PERGPU_OUT/logs/"'
    home.submit(grid("train", 1, f"shell = {json.dumps(copy)}"), "--lanes", 1)
    assert home.wait() == 0
    (job,) = home.json("show", "@")["jobs"]
    assert job["last_metrics"] == {
        "step": 300, "loss": 0.33333334, "acc/top1": 0.98, "nan": "nan", "tf0": 0.5, "tf1": 0.25, "tf2": 0.125}  # fmt: skip
    assert job["last_metrics_file"] == job["out"] + "/logs/" + os.path.basename(written)
    assert "acc/top1 0.98, " in home.run("show", "@").stdout
    assert json.loads(home.run("export", "--jsonl").stdout)["last_metrics"] == job["last_metrics"]
    with open(job["metrics"], "w") as f:
        f.write('{"loss": 0.25}\n')
    assert home.json("show", "@")["jobs"][0]["last_metrics"] == {"loss": 0.25}
