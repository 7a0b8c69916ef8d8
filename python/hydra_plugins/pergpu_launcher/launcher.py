"""The launcher class for Hydra's plugin search; _launch.py has the implementation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

if TYPE_CHECKING:
    from ._launch import Sweep


class PergpuLauncher(Launcher):
    """Runs each job of Hydra as a call of a pergpu.Executor, which lives as long as this launcher.  So a sweeper
    that launches several batches has one sweep of pergpu."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = options
        self._sweep: Sweep | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self._sweep = None
        self._given = (hydra_context, task_function, config)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Waits until all jobs have ended.  Failed jobs come back with their exception, or with a
        pergpu.JobFailed, as their value."""
        from . import _launch

        if self._sweep is None:
            self._sweep = _launch.Sweep(self._options, *self._given)
        return self._sweep.launch(job_overrides, initial_job_idx)
