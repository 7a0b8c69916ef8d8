#!/usr/bin/env python3
"""A grid search with scikit-learn: each batch of fits is a job.

    python3 sklearn_grid.py [--gpus 1] [--lanes 2] [--candidates 4]

Runs on CPU lanes by default.  With --gpus 1 every worker has its own GPU, for estimators that compute on
one.  `pergpu top` shows its progress, `pergpu report @` its results.  Needs scikit-learn.
"""
import argparse

import joblib
import pergpu.joblib  # makes "pergpu" known to joblib
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--gpus", type=int, default=0, choices=(0, 1), help="GPUs per job")
parser.add_argument("--lanes", type=int, default=2, help="fits at once, without GPUs")
parser.add_argument("--candidates", type=int, default=4, help="number of values of C to try")
chosen = parser.parse_args()

digits = load_digits()
costs = [10.0 ** (i - 2) for i in range(chosen.candidates)]
search = GridSearchCV(SVC(gamma="scale"), {"C": costs}, cv=3)

keys = {"gpus": 1} if chosen.gpus else {"gpus": 0, "lanes": chosen.lanes}
# joblib before 1.3, as in Debian 12, has the older name.
config = getattr(joblib, "parallel_config", joblib.parallel_backend)
with config("pergpu", timeout="10m", **keys):
    search.fit(digits.data, digits.target)

for parameters, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"]):
    print(f"C {parameters['C']:<8g} accuracy {score:.3f}")
print("best C:", search.best_params_["C"])
