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

# Of these a report tells on Slurm, too, but not the same: when, for how long, where.
DIFFERENT = {
    "made_at", "queued_at", "starting_at", "started_at", "ended_at", "duration_s", "expected_s", "expected_end_at",
    "cpu_s", "peak_memory_bytes", "usage", "node", "lane", "gpus", "cpus", "root", "out", "log", "metrics", "lanes",
    "efficiency", "elapsed_s", "train_s", "seconds",
}  # fmt: skip


def report_of(home):
    home.run("report", "-o", "page.html")
    page = read(f"{home.work}/page.html")
    (text,) = re.findall('<script type="application/json" id="pergpu-data">(.*?)</script>', page)
    return json.loads(text)


def shape(value):
    """What there is, without what it says."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items() if key not in ("usage", "last_metrics", "lanes")}
    return [shape(each) for each in value] if isinstance(value, list) else None


def same(value):
    if isinstance(value, dict):
        return {key: same(each) for key, each in value.items() if key not in DIFFERENT}
    return [same(each) for each in value] if isinstance(value, list) else value


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
    assert shape(reports[0]) == shape(reports[1])
    assert same(reports[0]) == same(reports[1])
    assert {job["node"] for job in reports[0]["jobs"] if job["attempts"]} == {"n0"}
    assert {job["node"] for job in reports[1]["jobs"]} == {None}


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
