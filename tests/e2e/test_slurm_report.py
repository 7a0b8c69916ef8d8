"""A sweep ends on a real Slurm as it does on this machine: the same tables, the same report."""
import json
import re
import shutil

import pytest
from harness import LONG, read, strip_colours
from pages import ROOT

SMALL = """
name = "small"
runs = [{ lr = 0.1, code = 0 }, { lr = 0.2, code = 3 }, { lr = 0.4, code = 0 }]
[defaults]
cpus = 1  # else a job has its lane's share of the cores, which is the node's
[steps.first]
once = true
shell = "echo first"
[steps.train]
shell = "echo $PERGPU_PARAM_LR; echo '{\\"loss\\": '$PERGPU_PARAM_LR'}' >> $PERGPU_METRICS; exit $PERGPU_PARAM_CODE"
retries = { max = 1, delay = "0s" }
[steps.evaluate]
needs = ["train", "first"]
shell = "echo '{\\"score\\": 7}' >> $PERGPU_METRICS"
"""

# Of these a report tells on Slurm, too, but not the same: when, how long, how much was measured, and which node
# with which GPUs and lanes.  All else is the same; of these, too, that there is one.
DIFFERENT = {
    "made_at", "lanes", "efficiency.makespan_s", "efficiency.work_s", "efficiency.longest_chain_s", "efficiency.lower_bound_s",
    "jobs[].queued_at", "jobs[].started_at", "jobs[].ended_at", "jobs[].duration_s", "jobs[].expected_s",
    "jobs[].node", "jobs[].lane", "jobs[].lanes", "jobs[].gpus",
    "jobs[].attempts[].starting_at", "jobs[].attempts[].started_at", "jobs[].attempts[].ended_at",
    "jobs[].attempts[].duration_s", "jobs[].attempts[].cpu_s", "jobs[].attempts[].peak_memory_bytes",
    "jobs[].attempts[].usage", "jobs[].attempts[].node", "jobs[].attempts[].lane", "jobs[].attempts[].lanes",
    "jobs[].attempts[].gpus",
}  # fmt: skip


def report_of(home):
    """Its data, with the paths as they are from the home's folder."""
    home.run("report", "-o", "page.html")
    page = read(f"{home.work}/page.html").replace(home.work, "")
    (text,) = re.findall('<script type="application/json" id="pergpu-data">(.*?)</script>', page)
    return json.loads(text)


def leaves(value, path=""):
    """{path: value}, as in jobs[0].attempts[1].exit."""
    if re.sub(r"\[\d+\]", "[]", path) in DIFFERENT:
        return {path: "there"}
    if isinstance(value, dict) and value:
        parts = [(f"{path}.{key}".lstrip("."), each) for key, each in value.items()]
    elif isinstance(value, list) and value:
        parts = [(f"{path}[{i}]", each) for i, each in enumerate(value)]
    else:
        return {path: value}
    return {path: leaf for part, each in parts for path, leaf in leaves(each, part).items()}


def differences(there, here):
    """What two reports say that must be the same and is not, a line each: the path and both values."""
    one, other = leaves(there), leaves(here)
    paths = [path for path in {**one, **other} if one.get(path, "missing") != other.get(path, "missing")]

    def short(value):
        text = json.dumps(value)
        return text if len(text) <= 80 else text[:79] + "…"

    return [f"{path}: {short(one.get(path, 'missing'))} on Slurm, {short(other.get(path, 'missing'))} here" for path in paths]


def table(text):
    lines = strip_colours(text).splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("RUN"))
    return [[word for word in line.split() if not re.fullmatch(r"([\d.]+(ms|s|m|h))+", word)] for line in lines[begin:]]


def compare(there, here, file, code=0):
    """Runs the file on Slurm and here; the report and the jobs of the first."""
    reports, tables = [], []
    for place, options in ((there, ("--on", "slurm")), (here, ("--lanes", 8))):
        process = place.start("run", file, *options)
        out, err = process.communicate(timeout=1800)
        assert process.returncode == code, out + err
        reports.append(report_of(place))
        tables.append(table(out.replace(place.work, "")))
    assert tables[0] == tables[1]
    found = differences(*reports)
    assert not found, "\n".join(["the reports differ:", *found[:20], *(["…"] if len(found) > 20 else [])])
    assert {job["node"] for job in reports[0]["jobs"] if job["attempts"]} == {"n0"}
    assert {job["node"] for job in reports[1]["jobs"]} == {None}


def test_what_differs_is_named():
    def report(state, **attempt):
        return {"made_at": state, "jobs": [{"state": "done"}, {"state": state, "attempts": [{"gpus": [], **attempt}]}]}

    one, other = report("done", gpus=["0"], exit=0), report("failed", lane="cpu0")
    assert differences(one, {**one, "made_at": "later"}) == []
    assert differences(one, other) == [
        'jobs[1].state: "done" on Slurm, "failed" here',
        'jobs[1].attempts[0].exit: 0 on Slurm, "missing" here',
        'jobs[1].attempts[0].lane: "missing" on Slurm, "there" here',
    ]


def test_a_small_sweep_ends_as_it_does_here(slurm, home, new_home):
    here = new_home()
    for place in (home, here):
        place.file("small.toml", SMALL)
    compare(home, here, "small.toml", code=1)
    assert home.states() == here.states()


@pytest.mark.skipif(not LONG, reason="trains 13 models twice: PERGPU_LONG=1")
def test_thirteen_models_end_as_they_do_here(slurm, home, new_home):
    here = new_home()
    for place in (home, here):
        shutil.copytree(f"{ROOT}/examples/thirteen", place.work, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("runs", "__pycache__"))  # fmt: skip
        # With as many threads, sums come out the same to the last bit.
        text = read(f"{place.work}/thirteen.toml")
        place.file("thirteen.toml", text.replace("[steps.classifier]", "[defaults]\ncpus = 1\n[steps.classifier]"))
    compare(home, here, "thirteen.toml")
    assert list(home.states().values()) == ["done"] * 27
