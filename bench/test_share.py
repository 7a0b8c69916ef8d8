"""The scripts of bench/share say what they measured, and run with next to nothing to measure.

PERGPU_BIN: in the folder of the build; without it the release build.  No figure is judged here.
"""
import importlib
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent / "share"
BUILD = pathlib.Path(os.environ.get("PERGPU_BIN") or HERE.parent.parent / "build/release/pergpu").parent
sys.path.insert(0, str(HERE))
common = importlib.import_module("common")


def rows_of(name, *options):
    if not (BUILD / "_share.abi3.so").exists():
        pytest.skip("the compiled part of the package is not built")
    pytest.importorskip("numpy")
    done = subprocess.run([sys.executable, HERE / name, "--build", BUILD, "--json", "--turns", "1", *options], capture_output=True, text=True, timeout=200)
    assert done.returncode in (0, 1), done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    rows = [one for one in told if "what" in one]
    assert done.returncode == any(map(common.missed, rows)), done.stderr
    return rows


def test_an_aim_is_missed_by_less_and_a_limit_by_more():
    assert not common.missed(common.row("a", "items/s", 20, "b", 10, 2.0, aim=2))
    assert common.missed(common.row("a", "items/s", 19, "b", 10, 1.9, aim=2))
    assert common.missed(common.row("a", "items/s", None, "b", 10, None, aim=2)), "nothing was measured"
    assert not common.missed(common.row("a", "ms", 10, limit=10))
    assert common.missed(common.row("a", "ms", 10.1, limit=10))
    table = common.table([common.row("a", "ms", 10.1, limit=10), common.row("b", "items/s", 12345, "peer", 3, 4115, aim=2)])
    assert [line.split() for line in table.splitlines()] == [
        ["what", "unit", "pergpu", "peer", "ratio", "aim"],
        ["a", "ms", "10.1", "<=", "10:", "missed"],
        ["b", "items/s", "12,345", "3", "peer", "4,115", ">=", "2"],
    ]


def test_a_name_that_is_none_is_refused():
    done = subprocess.run([sys.executable, HERE / "channel", "--only", "pergpu,nothing"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "there is no nothing; there are pergpu, " in done.stderr


def test_the_channel_is_compared_item_for_item():
    rows = rows_of("channel", "--seconds", "0.05", "--sizes", "150KB", "--read", "all", "--only", "pergpu,simple")
    assert [(one["unit"], one["peer"]) for one in rows] == [("items/s", "simple"), ("CPU s/GB", "simple")]
    assert all(one["ours"] > 0 and one["theirs"] > 0 for one in rows)


def test_the_loader_is_compared_batch_for_batch():
    pytest.importorskip("torch")
    rows = rows_of("loading", "--seconds", "0.05", "--rows", "600", "--only", "pergpu,torch-batch-0")
    assert [(one["unit"], one["peer"]) for one in rows] == [("rows/s", "torch-batch-0"), ("CPU us/row", "torch-batch-0")]


def test_data_is_attached_and_there_once():
    rows = rows_of("dataset", "--attach", "0.01", "--share", "0.01")
    ours = {one["what"]: one["ours"] for one in rows if one["peer"] is None}
    assert len(ours) == 6 and all(value > 0 for value in ours.values())
    copies = {one["peer"]: one["theirs"] for one in rows if one["peer"]}
    assert copies["numpy.load"] > 4, "each of eight processes has one of its own"
