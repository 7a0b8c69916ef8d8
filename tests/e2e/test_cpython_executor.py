"""CPython's own tests of executors (cpython_executor.py), under this Python, and under another one where
$PERGPU_OTHER_PYTHON is its path.  That needs cloudpickle and its package `test`."""
import json
import os
import re
import subprocess
import sys

import pytest

import harness

HERE = os.path.dirname(os.path.abspath(__file__))
RUNNER = HERE + "/cpython_executor.py"
ROOT = os.path.dirname(os.path.dirname(HERE))
PYTHONS = [sys.executable, *filter(None, [os.environ.get("PERGPU_OTHER_PYTHON")])]
LEAST = 50  # tests that every version has and that are run in any case


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("reuse", [False, True])
def test_executors_pass_the_tests_of_cpython(home, python, reuse):
    if reuse and not harness.LONG:
        pytest.skip("warm workers: ./test --all")
    needs = subprocess.run(
        [python, "-c", "import cloudpickle, test.test_concurrent_futures"], cwd=home.work, stderr=subprocess.PIPE, text=True
    )
    if needs.returncode != 0:
        pytest.skip(f"{python}: {needs.stderr.splitlines()[-1]}")
    process = subprocess.run(
        [python, RUNNER, "-v"], cwd=home.work, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=280,
        env={**home.env, "PYTHONPATH": ROOT + "/python", "PERGPU_BIN": harness.PERGPU, "PYTHONDONTWRITEBYTECODE": "1",
             "PERGPU_LONG": "1" if harness.LONG else "0", "PERGPU_TEST_REUSE": str(int(reuse))},
    )  # fmt: skip
    assert process.returncode == 0, process.stdout
    told = json.loads(process.stdout.splitlines()[-1])
    assert told["run"] >= LEAST and told["skipped"] == 0, process.stdout
    print(python, told)


def test_what_is_left_out_is_documented():
    left_out = re.findall(r'^    "\w+\.(test_\w+)": ', harness.read(RUNNER), re.M)
    text = harness.read(ROOT + "/docs/cpython-tests.md")
    assert len(left_out) > 5 and [name for name in left_out if f"`{name}`" not in text] == []
