"""Loading by threads: the example, run as a sweep."""
import json

import pytest

from harness import read

pytest.importorskip("numpy")
pytest.importorskip("sklearn")


def test_the_example_trains_as_well_with_either_loader(home, example):
    example("loader")
    home.run("submit", "loader.toml", "--lanes", 2)
    assert home.wait() == 0
    for job in home.json("show", "loader")["jobs"]:
        assert "1500 images per epoch" in read(job["log"])
    rows = [json.loads(line) for line in home.run("export", "--jsonl", "loader").stdout.splitlines()]
    accuracy = {}
    for row in rows:
        accuracy.setdefault(row["params"]["loader"], []).append(row["last_metrics"]["accuracy"])
    assert set(accuracy) == {"torch", "share"}
    assert all(len(each) == 2 and min(each) > 0.75 for each in accuracy.values()), accuracy
    assert abs(sum(accuracy["torch"]) - sum(accuracy["share"])) / 2 < 0.05, accuracy
