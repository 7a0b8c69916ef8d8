"""pergpu for the Python programs that it runs: read a job's parameters, and report its results.

    >>> import pergpu
    >>> cfg = pergpu.config(lr=0.1)     # the run's parameters; 0.1 if the run has no lr
    >>> cfg.lr
    0.1
    >>> pergpu.report(step=1, loss=0.5)  # a line of metrics.jsonl
    >>> pergpu.progress(1, 10)           # shown with the job

The import starts nothing, and loads neither numpy nor torch.  Outside of a job, reports are checked and
dropped, so you can run the same program by hand; see docs/python.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._checkpoint import checkpoint_requested, on_checkpoint, requeue
from ._config import Config, config
from ._job import NotAJob, in_job
from ._metrics import flush, report
from ._notify import progress, ready, status, track

# Sweeps from Python need more modules than a job does.
_LATER = {
    "Best": "_reported",
    "CommandFailed": "_program_calls",
    "Executor": "_executor",
    "Future": "_future",
    "HeldWarning": "_held",
    "JobFailed": "_future",
    "RemoteError": "_future",
    "Reported": "_reported",
    "attach": "_attach",
    "best": "_reported",
    "metrics": "_reported",
    "Results": "_results",
    "Row": "_results",
    "Sweep": "_sweep",
    "SweepFailed": "_sweep",
    "grid": "_sweep",
    "results": "_results",
    "watch": "_watch",
}

if TYPE_CHECKING:
    from pathlib import Path

    from ._attach import attach
    from ._executor import Executor
    from ._future import Future, JobFailed, RemoteError
    from ._held import HeldWarning
    from ._program_calls import CommandFailed
    from ._reported import Best, Reported, best, metrics
    from ._results import Results, Row, results
    from ._sweep import Sweep, SweepFailed, grid
    from ._watch import watch

    out: Path
    """The job's folder (PERGPU_OUT).  It exists, and stays between attempts."""

__version__ = "0.2.0"

__all__ = [
    "Best",
    "CommandFailed",
    "Config",
    "Executor",
    "Future",
    "HeldWarning",
    "JobFailed",
    "NotAJob",
    "RemoteError",
    "Reported",
    "Results",
    "Row",
    "Sweep",
    "SweepFailed",
    "attach",
    "best",
    "checkpoint_requested",
    "config",
    "flush",
    "grid",
    "in_job",
    "metrics",
    "on_checkpoint",
    "progress",
    "ready",
    "report",
    "requeue",
    "results",
    "status",
    "track",
    "watch",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name == "out":
            from ._job import out

            return out()
        if name in _LATER:
            import importlib

            return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
