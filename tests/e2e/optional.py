"""Interpreters that have packages which pergpu does not need: the one that runs the tests, else the one
that PERGPU_TEST_PYTHON names, such as that of a virtual environment."""
import functools
import os
import subprocess
import sys

import pytest


def python_with(*modules):
    """Its path; skips the test where none of them has all of the modules."""
    for path in (sys.executable, os.environ.get("PERGPU_TEST_PYTHON")):
        if path and _has(path, modules):
            return path
    pytest.skip(f"{', '.join(modules)}: not installed; PERGPU_TEST_PYTHON=… names a Python that has it")


@functools.cache
def _has(path, modules):
    return subprocess.run([path, "-c", "import " + ", ".join(modules)], capture_output=True).returncode == 0
