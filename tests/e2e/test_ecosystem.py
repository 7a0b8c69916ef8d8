"""examples/python: searches of scikit-learn and Optuna, each with what it needs installed."""
import os
import re

import pytest

from test_joblib import python

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples")


def test_a_grid_search_of_scikit_learn_is_jobs(home):
    pytest.importorskip("sklearn")
    out = python(home, f"{EXAMPLES}/python/sklearn_grid.py", "--candidates", "2")
    assert re.search(r"^C 0.01 +accuracy 0.\d+\nC 0.1 +accuracy 0.9\d+\nbest C: 0.1$", out, re.M), out
    jobs = home.json("ps", "-a")["jobs"]
    assert len(jobs) == 2 and {job["state"] for job in jobs} == {"done"}
