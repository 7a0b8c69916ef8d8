"""Children in calls: each kind of pool, with each way to start a process, wherever a call may run.

The short run has some of them, and torch once; PERGPU_LONG=1 runs all combinations.
"""
import os
import subprocess
import sys

import pytest

from harness import LONG
from optional import python_with
from test_executor import environment
from test_submitit_plugin import python as submitit_python  # noqa: F401 (a fixture)

SCRIPT = """
import concurrent.futures, json, multiprocessing, os
class Pair:
    def __init__(self, x):
        self.x = x
    def __eq__(self, other):
        return type(other) is Pair and self.x == other.x
class Rows:
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return double(Pair(i)).x
def double(pair):
    return Pair(2 * pair.x)
def in_pool(context):
    with context.Pool(1) as children:
        return children.map(double, map(Pair, range(4)))
def in_executor(context):
    with concurrent.futures.ProcessPoolExecutor(1, context) as children:
        return list(children.map(double, map(Pair, range(4))))
def in_loader(context):
    import torch
    from torch.utils.data import DataLoader
    loader = DataLoader(Rows(), batch_size=2, num_workers=1, multiprocessing_context=context)
    return [Pair(x) for batch in loader for x in batch.tolist()]
def in_loky(context):
    try:
        import loky
    except ImportError:
        from joblib.externals import loky
    method = {"fork": "loky", "forkserver": "loky_init_main"}.get(context.get_start_method(), "spawn")
    with loky.ProcessPoolExecutor(1, context=loky.backend.get_context(method)) as children:
        return list(children.map(double, map(Pair, range(4))))
KINDS = {"pool": in_pool, "executor": in_executor, "loader": in_loader, "loky": in_loky}
MISSING = set()
for kind, module in (("loader", "torch"), ("loky", "loky")):
    try:
        if kind == "loky":
            try:
                import loky
            except ImportError:
                import joblib.externals.loky
        else:
            import importlib.util
            if importlib.util.find_spec(module) is None:
                raise ImportError
    except ImportError:
        MISSING.add(kind)
def all_of(combinations):
    told = {}
    for kind, method in combinations:
        if kind not in MISSING:
            result = KINDS[kind](multiprocessing.get_context(method))
            told[f"{kind} {method}"] = result == [Pair(2 * i) for i in range(4)]
    return told
COMBINATIONS = json.loads(os.environ["COMBINATIONS"])
"""
EXECUTOR = """
if __name__ == "__main__":
    import pergpu
    with pergpu.Executor(1, gpus=0, lanes=1, timeout="200s", reuse={}) as executor:
        print(json.dumps(executor.submit(all_of, COMBINATIONS).result()))
"""
JOBLIB = """
if __name__ == "__main__":
    import joblib, pergpu.joblib
    with joblib.parallel_config("pergpu", gpus=0, lanes=1, timeout="200s") if hasattr(joblib, "parallel_config") else \\
            joblib.parallel_backend("pergpu", gpus=0, lanes=1, timeout="200s"):
        told, _ = joblib.Parallel(n_jobs=2)([joblib.delayed(all_of)(COMBINATIONS), joblib.delayed(abs)(-1)])
    print(json.dumps(told))
"""
SUBMITIT = """
if __name__ == "__main__":
    import submitit
    executor = submitit.AutoExecutor(folder="logs", cluster="pergpu")
    executor.update_parameters(timeout_min=4, pergpu_lanes=1)
    print(json.dumps(executor.submit(all_of, COMBINATIONS).result()))
"""
HYDRA = """
import hydra
@hydra.main(version_base=None, config_path=None)
def train(config):
    with open(os.environ["TOLD"], "w") as file:
        json.dump(all_of(COMBINATIONS), file)
if __name__ == "__main__":
    train()
    print(open(os.environ["TOLD"]).read())
"""
HYDRA_WORDS = ["--multirun", "hydra/launcher=pergpu", "hydra.launcher.gpus=0", "hydra.launcher.lanes=1", "+x=1"]
# text, arguments, modules that it needs
PLACES = {
    "fresh": (EXECUTOR.format(False), [], ["cloudpickle"]),
    "warm": (EXECUTOR.format(True), [], ["cloudpickle"]),
    "joblib": (JOBLIB, [], ["joblib", "cloudpickle"]),
    "submitit": (SUBMITIT, [], ["submitit", "cloudpickle", "pytest"]),
    "hydra": (HYDRA, HYDRA_WORDS, ["hydra", "cloudpickle"]),
}
METHODS = ["fork", "spawn", "forkserver"]
SHORT = [("pool", "fork"), ("executor", "spawn"), ("pool", "forkserver"), ("loky", "fork")]
ONE_LOADER = {"fresh": "spawn"}


def combinations_in(place):
    if LONG:
        return [(kind, method) for kind in ("pool", "executor", "loader", "loky") for method in METHODS]
    return [*SHORT, *[("loader", method) for name, method in ONE_LOADER.items() if name == place]]


@pytest.mark.parametrize("place", [*PLACES])
def test_children_work_wherever_a_call_runs(home, place, request):
    text, words, modules = PLACES[place]
    path = python_with(*modules)
    script = home.file("script.py", SCRIPT + text)
    home.env["TOLD"] = home.work + "/told"
    home.env["COMBINATIONS"] = str(combinations_in(place)).replace("'", '"').replace("(", "[").replace(")", "]")
    if place == "submitit":
        told = request.getfixturevalue("submitit_python")(script)
    else:
        done = subprocess.run([path, script, *words], cwd=home.work, text=True, capture_output=True, timeout=400, env=environment(home))
        assert done.returncode == 0, done.stdout + done.stderr
        told = done.stdout
    results = eval(told.splitlines()[-1], {"true": True, "false": False})
    kinds = {name.partition(" ")[0] for name in results}
    assert {*results.values()} == {True} and {"pool", "executor"} <= kinds, told
    if LONG:
        print(place, sys.version.split()[0], sorted(kinds), "missing:", sorted({"loader", "loky"} - kinds))
