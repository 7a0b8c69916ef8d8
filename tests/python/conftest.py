"""The package as it lies in the repository, and a sweep of its own for a test that shares memory."""
import gc
import os
import sys

import pytest

PYTHON = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python")
sys.path.insert(0, PYTHON)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [PYTHON, os.environ.get("PYTHONPATH")]))


@pytest.fixture
def own_sweep(tmp_path, monkeypatch):
    """Channels and parameters of this test, and of the processes that it starts, have the names of a sweep
    of its own: other processes of this user, those of a test run beside this one, have others."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("PERGPU_SWEEP", "own")
    monkeypatch.setenv("PERGPU_OUT", str(tmp_path / "own" / "run" / "step"))
    monkeypatch.delenv("PERGPU_HOME", raising=False)
    gc.collect()  # what earlier tests left in cycles
