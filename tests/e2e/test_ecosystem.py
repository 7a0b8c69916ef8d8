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


def test_a_search_of_optuna_stops_the_jobs_of_trials_that_look_bad(home):
    pytest.importorskip("optuna")
    out = python(home, f"{EXAMPLES}/python/optuna_search.py")
    trials = re.findall(r"^trial (\d+): (\w+) after (\d+) steps", out, re.M)
    assert [int(number) for number, *_ in trials] == [*range(12)], out
    pruned = [int(steps) for _, state, steps in trials if state == "pruned"]
    complete = [int(steps) for _, state, steps in trials if state == "complete"]
    assert len(pruned) + len(complete) == 12 and pruned and set(complete) == {40}, out
    assert max(pruned) <= 40 and min(pruned) > 5 and "best: trial" in out
    states = [job["state"] for job in home.json("ps", "-a")["jobs"]]
    assert len(states) == 12 and set(states) == {"done", "cancelled"}
    assert states.count("cancelled") <= len(pruned)  # one may end by itself before it is told to
