"""Tests of bench/document: pytest bench/test_document.py.  The figures are made up."""
import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

PATH = pathlib.Path(__file__).with_name("document")
loader = importlib.machinery.SourceFileLoader("document", str(PATH))
document = importlib.util.module_from_spec(importlib.util.spec_from_loader("document", loader))
loader.exec_module(document)

MACHINE = {"cpu": "A CPU", "cores": 2, "virtual": True, "memory_bytes": 2**33, "system": "Debian", "kernel": "6.1.0-18-x",
           "file_system": "ext4", "version": "abc", "python": "3.11.2", "compiler": "c++ 12"}  # fmt: skip


def record(part, result, **more):
    return {"part": part, "quick": False, "date": "2026-01-01 00:00 UTC", "machine": MACHINE, "pergpu": "pergpu 1",
            "build": "release", "told": {}, "command": f"bench/{part}", "before": 0.0, "after": 0.0, "took_s": 60.0,
            "exit": 0, "result": result, **more}  # fmt: skip


def scale(value):
    return {"jobs": 10, "live": 5, "rows": [{"row": "restart", "what": "adopted, s", "value": value, "aim": 1,
                                             "met": value < 1, "rounds": [value]}]}  # fmt: skip


def write(folder, *words):
    command = [sys.executable, PATH, "--results", folder, "--out", folder / "out.md", *words]
    code = subprocess.run(command, capture_output=True, text=True).returncode
    return code, (folder / "out.md").read_text()


def test_nothing_measured_is_said_of_every_part(tmp_path):
    _, page = write(tmp_path, "--write")
    for part in document.PARTS:
        assert f"- `{part}`: Not measured yet" in page
    assert "{{" not in page
    assert "0 of 0 aims are met." in page


@pytest.mark.parametrize(("value", "words", "code"), [(0.5, "1 of 1 aims are met.", 0),
                                                      (2.0, "0 of 1 aims are met. Missed: restart: adopted, s.", 1)])  # fmt: skip
def test_a_missed_aim_is_named(tmp_path, value, words, code):
    (tmp_path / "scale.json").write_text(json.dumps(record("scale", scale(value))))
    found, page = write(tmp_path, "--write")
    assert found == code
    assert words in page


def test_figures_beside_other_work_are_doubted(tmp_path):
    busy = record("scale", scale(0.5), before=0.4, quick=True, build="debug")
    (tmp_path / "scale.json").write_text(json.dumps(busy))
    _, page = write(tmp_path, "--write")
    for words in ("Other work took too much", "Few rounds", "A debug build"):
        assert page.count(words) == 2  # at the aims, and at the part


def test_a_failed_part_is_told_without_paths(tmp_path):
    failed = record("scale", None, failure=document.tidy("exit 1: no `x` in /srv/a/b/c: stop"))
    del failed["result"]
    (tmp_path / "scale.json").write_text(json.dumps(failed))
    code, page = write(tmp_path, "--write")
    assert code == 1
    assert "Failed on 2026-01-01 00:00 UTC: `exit 1: no 'x' in …/c: stop`" in page


def test_a_part_that_is_left_out_takes_nothing_away(tmp_path):
    (tmp_path / "replay.json").write_text(json.dumps(record("replay", [])))
    write(tmp_path, "--only", "replay", "--no-build")
    assert json.loads((tmp_path / "replay.json").read_text())["result"] == []


def test_commands_are_shown_without_paths():
    command = ["/usr/bin/python3", PATH.parent / "story/run", "--json", "--pergpu", "/srv/pergpu", "--only", "popen 1"]
    assert document.shown(command) == "bench/story/run --only 'popen 1'"
