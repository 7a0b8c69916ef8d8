"""joblib's own tests for "pergpu": a plugin of pytest, `-p joblib_backend -k pergpu`.

They are made for every backend that is registered when the module of the tests is loaded, so it is
registered here, before: on CPU lanes, as many as a test asks for.  PERGPU_TEST_REUSE=0: with a process
for each batch.
"""
import os

import pergpu.joblib
from joblib.parallel import register_parallel_backend


class PergpuBackend(pergpu.joblib.Backend):
    def __init__(self, **keys):
        super().__init__(**{"gpus": 0, "reuse": os.environ.get("PERGPU_TEST_REUSE") != "0", **keys})

    def submit(self, func, callback=None):
        return super().submit(Tasks(func.items, func), callback)


class Tasks:
    """Who unpickles it knows this backend by its name, too: for loops within loops."""

    def __init__(self, items, tasks):
        self.items, self.tasks = items, tasks

    def __len__(self):
        return len(self.items)

    def __call__(self):
        return self.tasks()


register_parallel_backend("pergpu", PergpuBackend)
