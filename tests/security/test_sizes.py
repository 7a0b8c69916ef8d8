"""Sweep files whose jobs are too large to be started fill no memory, and wait for nothing."""
import json
import os
import resource

import pytest
from harness import LONG, read

MEGABYTE = 1_000_000
MOST = 600_000  # KiB of memory: a sweep file of a megabyte, many times over
KINDS = {
    "one argument": lambda count: {"command": ["echo", "{n}"]},
    "many arguments": lambda count: {"command": ["echo", *["{n}"] * count]},
    "one text": lambda count: {"shell": "echo " + "{args}" * count},
    "once": lambda count: {"command": ["echo", *["x" * 100_000] * count], "once": True},
}


def peak(pid):
    line = next(line for line in read(f"/proc/{pid}/status").splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1])


@pytest.mark.skipif("ASAN_OPTIONS" in os.environ, reason="a sanitizer's memory is another one")
@pytest.mark.parametrize("kind", KINDS if LONG else ["many arguments"])
def test_a_start_that_is_too_large_is_refused(home, kind):
    home.run("run", "--name", "first", "--", "true")
    for count in (1, 30, 100, 1000) if LONG else (300,):
        step = KINDS[kind](count)
        sweep = {"name": f"b{count}", "grid": {"n": ["y" * MEGABYTE]}, "steps": {"a": step}}
        if kind == "once" and count == 1:
            continue  # it fits
        said = home.run("submit", home.file("b.json", json.dumps(sweep)), code=2).stderr
        assert len(said) < 10_000 and "bytes" in said, said[:1000]
    assert peak(home.coordinator()) < MOST
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < MOST
    home.run("run", "--name", "last", "--", "true")
