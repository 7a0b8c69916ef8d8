"""The thirteen models of the example: on a real Slurm they end as they do on this machine."""
import json
import re
import shutil

import pytest
from harness import LONG, read, strip_colours
from pages import ROOT

pytestmark = pytest.mark.skipif(not LONG, reason="trains 13 models twice: PERGPU_LONG=1")

# Of these a report tells on Slurm, too, but not the same: when, for how long, where.
DIFFERENT = {
    "made_at", "queued_at", "starting_at", "started_at", "ended_at", "duration_s", "expected_s", "expected_end_at",
    "cpu_s", "peak_memory_bytes", "usage", "node", "lane", "gpus", "cpus", "root", "out", "log", "metrics", "lanes",
    "efficiency", "elapsed_s", "train_s", "seconds",
}  # fmt: skip


def report_of(home):
    home.run("report", "thirteen", "-o", "page.html")
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
    return [[word for word in line.split() if not re.fullmatch(r"[\d.]+(ms|s|m|h)", word)] for line in lines[begin:]]


def test_thirteen_models_end_as_they_do_here(slurm, home, new_home):
    reports, tables = [], []
    for place, options in ((home, ("--on", "slurm")), (new_home(), ("--lanes", 8))):
        shutil.copytree(f"{ROOT}/examples/thirteen", place.work, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("runs", "__pycache__"))  # fmt: skip
        # With as many threads, sums come out the same to the last bit.
        text = read(f"{place.work}/thirteen.toml").replace("[steps.classifier]", "[defaults]\ncpus = 1\n[steps.classifier]")
        place.file("thirteen.toml", text)
        process = place.start("run", "thirteen.toml", *options)
        out, err = process.communicate(timeout=1800)
        assert process.returncode == 0, out + err
        assert set(place.states().values()) == {"done"} and len(place.states()) == 27
        reports.append(report_of(place))
        tables.append(table(out))
    there, here = reports
    assert tables[0] == tables[1]
    assert shape(there) == shape(here)
    assert same(there) == same(here)
    assert {job["node"] for job in there["jobs"]} == {"n0"} and {job["node"] for job in here["jobs"]} == {None}
