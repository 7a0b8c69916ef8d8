"""Loading by threads: the example, run as a sweep."""
import json
import os
import shutil

import pytest
from pages import ROOT

from harness import PERGPU, read

pytest.importorskip("numpy")
pytest.importorskip("sklearn")


def test_the_example_trains_as_well_with_either_loader(home):
    folder = os.path.dirname(PERGPU)
    if not os.path.exists(folder + "/_share.abi3.so"):
        pytest.skip("the compiled part of the package is not built")
    shutil.copytree(ROOT + "/examples/loader", home.work + "/example")
    os.mkdir(home.root + "/runtime", 0o700)
    env = {
        "PATH": f"{folder}:{home.env['PATH']}",  # where jobs find pergpu, and so its compiled part
        "PYTHONPATH": ROOT + "/python",
        "PYTHONDONTWRITEBYTECODE": "1",
        "XDG_RUNTIME_DIR": home.root + "/runtime",
    }
    home.run("submit", "example/loader.toml", "--lanes", 2, env=env)
    assert home.wait() == 0
    for job in home.json("show", "loader")["jobs"]:
        assert "1500 images in an epoch" in read(job["log"])
    rows = [json.loads(line) for line in home.run("export", "--jsonl", "loader").stdout.splitlines()]
    accuracy = {}
    for row in rows:
        accuracy.setdefault(row["params"]["loader"], []).append(row["last_metrics"]["accuracy"])
    assert set(accuracy) == {"torch", "share"}
    assert all(len(each) == 2 and min(each) > 0.75 for each in accuracy.values()), accuracy
    assert abs(sum(accuracy["torch"]) - sum(accuracy["share"])) / 2 < 0.05, accuracy
