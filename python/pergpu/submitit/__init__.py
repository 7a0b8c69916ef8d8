"""submitit's interface, without submitit: `import pergpu.submitit as submitit`.

    executor = submitit.AutoExecutor(folder="logs")
    executor.update_parameters(timeout_min=60, gpus_per_node=1, name="train")
    jobs = executor.map_array(train, [0.1, 0.01, 0.001])
    print([job.result() for job in jobs])

If the package submitit is installed, its own AutoExecutor supports `cluster="pergpu"` (_plugin.py),
and your code needs no other change.  docs/submitit.md describes both.
"""

from __future__ import annotations

from . import helpers
from ._environment import JobEnvironment
from ._errors import FailedJobError, UncompletedJobError
from ._executor import AutoExecutor
from ._job import Job, JobPaths

__all__ = [
    "AutoExecutor",
    "FailedJobError",
    "Job",
    "JobEnvironment",
    "JobPaths",
    "UncompletedJobError",
    "helpers",
]
