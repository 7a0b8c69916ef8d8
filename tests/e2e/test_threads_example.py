"""examples/threads: what its scripts promise, and that pergpu's one gives what one after the other gives.

What threads do to each other differs from time to time: of attempts 1 and 2 only that is looked at
which does not.  numpy trains here, also where PyTorch is installed: its import takes longer than all else.
"""
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile

import pytest
from pages import ROOT, page
from test_gpus import gpus, uuid, world  # noqa: F401 (fixtures)

import harness
from harness import read

pytest.importorskip("numpy")

PACKAGE = os.path.join(ROOT, "python")
ROW = re.compile(r"(?m)^(\S+) +(\d+)  (\S+)  ([\d.]+) \.\. ([\d.]+) +(-?[\d.]+|nan)$")
NAMES = [f"{hidden}-{rate:g}" for hidden in (64, 128, 256, 512) for rate in (1e-3, 3e-3, 1e-2)] + ["768-0.001"]


def run(script, env, folder, steps=20):
    """What it prints, from a copy that may be written to."""
    examples = folder + "/threads"
    if not os.path.exists(examples):
        shutil.copytree(ROOT + "/examples/threads", examples)
    process = subprocess.run(
        [sys.executable, f"{examples}/{script}.py", "--steps", str(steps)], cwd=folder, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=280,
        env={**env, "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def rows(out):
    """[(name, pid, gpu, from, to, distance)] as printed."""
    return [(name, int(pid), gpu, float(begin), float(end), float(distance))
            for name, pid, gpu, begin, end, distance in ROW.findall(out)]  # fmt: skip


def without_torch(folder):
    os.makedirs(folder + "/hide", exist_ok=True)
    with open(folder + "/hide/torch.py", "w") as f:
        f.write("raise ImportError('not in this test')\n")
    return {"PATH": "/usr/bin:/bin", "HOME": folder, "LANG": "C.UTF-8", "PYTHONPATH": folder + "/hide"}


@functools.cache
def distances_of_one_by_one():
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp") as folder:
        told = rows(run("one_by_one", without_torch(folder), folder))
    assert [row[0] for row in told] == NAMES and len({row[1] for row in told}) == 1
    return {row[0]: row[5] for row in told}


def attempt(script, tmp_path):
    return run(script, without_torch(str(tmp_path)), str(tmp_path))


def test_one_by_one_works_with_pytorch_too(tmp_path):
    pytest.importorskip("torch")
    env = {name: value for name, value in without_torch(str(tmp_path)).items() if name != "PYTHONPATH"}
    assert [row[0] for row in rows(run("one_by_one", env, str(tmp_path), steps=2))] == NAMES


def test_threads_take_gpus_by_their_number_free_or_not(tmp_path):
    out = attempt("attempt1", tmp_path)
    told = rows(out)
    # A thread may meet a measure that another one has emptied: then it fails, or has no number.
    assert len(told) + len(re.findall(r"(?m)^\w*Error: ", out)) == 13
    for name, _, gpu, *_ in told:
        assert int(gpu) == NAMES.index(name) % 8
    assert len({row[1] for row in told}) == 1


def test_with_a_lock_each_model_has_a_distance(tmp_path):
    told = rows(attempt("attempt2", tmp_path))
    assert [row[0] for row in told] == NAMES
    assert len({row[1] for row in told}) == 1 and all(row[5] > 0 for row in told)


def test_the_closure_is_not_pickled(tmp_path):
    out = attempt("attempt3_first", tmp_path)
    assert rows(out) == [] and len(re.findall(r"(?m)^\w*Error: Can't pickle .*train_on_gpu", out)) == 13


def test_eight_processes_agree_with_one_after_the_other(tmp_path):
    told = rows(attempt("attempt3", tmp_path))
    assert {row[0]: row[5] for row in told} == distances_of_one_by_one()
    assert len({row[1] for row in told}) == 8
    assert all(int(row[2]) == NAMES.index(row[0]) % 8 for row in told)


def test_with_pergpu_each_call_has_a_process_and_a_gpu_of_its_own(gpus):  # noqa: F811
    env = {**gpus.env, "PERGPU_BIN": harness.PERGPU}
    env["PYTHONPATH"] = without_torch(gpus.work)["PYTHONPATH"] + ":" + PACKAGE
    told = rows(run("with_pergpu", env, gpus.work))
    assert {row[0]: row[5] for row in told} == distances_of_one_by_one()
    assert len({row[1] for row in told}) == 13
    assert {row[2] for row in told} == {uuid(n) for n in range(8)}  # one each, and no GPU was idle
    for a in told:
        for b in told:
            assert a is b or a[2] != b[2] or a[4] <= b[3] or b[4] <= a[3], "two at once on a GPU"


def test_the_page_shows_the_whole_difference():
    (shown,) = re.findall(r"(?ms)^```diff\n(.*?)^```$", page("examples/threads/README.md"))
    code = [read(f"{ROOT}/examples/threads/{name}.py").split('"""')[2].splitlines() for name in ("attempt1", "with_pergpu")]
    gone, come = ([line for line in mine if line and line not in others] for mine, others in (code, code[::-1]))
    assert [line[1:] for line in shown.splitlines() if line[0] == "-"] == gone
    assert [line[1:] for line in shown.splitlines() if line[0] == "+"] == come
