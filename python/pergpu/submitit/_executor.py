"""An executor with submitit's interface, whose calls are jobs of pergpu."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ._job import Job
from ._parameters import names_of
from ._pools import Call, Pools, root_of
from ._resume import MOST, Resumable, checkpoint_of

R = TypeVar("R")

ENGINES = ("local",)
CLUSTERS = ("pergpu", "local")
_SIGNAL = "USR2"  # NCCL may take USR1
_LOST = "the jobs of a batch have no {} before the end of its `with` block, where they are submitted"


class AutoExecutor:
    """submitit's executor, on this machine.

        executor = AutoExecutor(folder="logs")
        executor.update_parameters(timeout_min=60, gpus_per_node=1, mem_gb=32, name="train")
        job = executor.submit(train, 0.1)
        print(job.job_id, job.result())

    `folder`: for the output and results of jobs.  `cluster`: None, "pergpu" and "local" are the same;
    `engine`: where jobs run, only "local" so far.  `max_num_timeout`: how often a checkpointable call may
    continue after its time was over.  `warn_ignored` exists for compatibility; you always get the warnings.

    Your program may end once its jobs are submitted: they continue, and Job(folder, job_id) finds them.

    ValueError: there is no such cluster or engine, or a number is out of range.
    """

    job_class = Job

    def __init__(
        self,
        folder: str | os.PathLike[str],
        cluster: str | None = None,
        *,
        engine: str = "local",
        max_num_timeout: int = 3,
        slurm_max_num_timeout: int | None = None,
        warn_ignored: bool = False,
    ) -> None:
        if engine not in ENGINES:
            raise ValueError(f'there is no engine "{engine}"; expected "local": the jobs run on this machine')
        if cluster not in (None, *CLUSTERS):
            raise ValueError(
                f'pergpu.submitit has no cluster "{cluster}", only "pergpu" and "local", which both mean this '
                "machine; the package submitit has the others, and this one as cluster=\"pergpu\""
            )
        self.cluster = cluster or "pergpu"
        self.engine = engine
        self.folder = Path(root_of(folder))
        self.max_num_timeout = max_num_timeout if slurm_max_num_timeout is None else slurm_max_num_timeout
        if not 0 <= self.max_num_timeout <= MOST:
            raise ValueError(f"max_num_timeout is {self.max_num_timeout}, and a job may continue at most {MOST} times")
        self.parameters: dict[str, Any] = {}
        self._pools = Pools(folder)
        self._batch: Batch | None = None

    def update_parameters(self, **parameters: Any) -> None:
        """Sets parameters of the jobs that you submit from now on (docs/submitit.md).

        NameError: there is no such parameter.  ValueError, TypeError, pergpu.CommandFailed: invalid value.
        RuntimeError: inside a batch.
        """
        if self._batch is not None:
            raise RuntimeError('parameters cannot be changed within "with executor.batch()"')
        wanted = {**self.parameters, **names_of(parameters)}
        self._pools.of(wanted)
        self.parameters = wanted

    def submit(self, fn: Callable[..., R], *args: Any, **kwargs: Any) -> Job[R]:
        """Queues a call.  pickle.PicklingError: it can't be sent to another process; the message has the reason."""
        if self._batch is not None:
            return self._batch.add((fn, args, kwargs))
        return self._submit([(fn, args, kwargs)])[0]

    def map_array(self, fn: Callable[..., R], *iterables: Iterable[Any]) -> list[Job[R]]:
        """Submits a job for each item, as map() makes calls; all of them are queued together."""
        return self._array([(fn, args, {}) for args in zip(*iterables)])

    def submit_array(self, fns: Sequence[Callable[[], R]]) -> list[Job[R]]:
        """Submits a job for each function, without arguments."""
        return self._array([(fn, (), {}) for fn in fns])

    def _array(self, calls: list[Call]) -> list[Job[Any]]:
        if not calls:
            warnings.warn("Received an empty job array", stacklevel=3)
        return self._submit(calls)

    @contextlib.contextmanager
    def batch(self, allow_implicit_submissions: bool = False) -> Iterator[None]:
        """Queues all jobs submitted in this block together, at its end; an exception drops them.

        Until then its jobs have no id, state or result: AttributeError.  With `allow_implicit_submissions`
        reading one queues the jobs so far.  RuntimeError: another batch is open.
        """
        if self._batch is not None:
            raise RuntimeError('"with executor.batch()" cannot be used inside another one')
        self._batch = batch = Batch(self, allow_implicit_submissions)
        try:
            yield
            if not batch.hand_over() and not allow_implicit_submissions:
                warnings.warn('No submission happened during "with executor.batch()" context.', RuntimeWarning, stacklevel=3)
        finally:
            batch.close()
            self._batch = None

    def _submit(self, calls: Sequence[Call]) -> list[Job[Any]]:
        """In their order; calls that can continue elsewhere get a signal before their end."""
        jobs: list[Job[Any] | None] = [None] * len(calls)
        for signal in ("", _SIGNAL):
            places = [i for i, call in enumerate(calls) if (checkpoint_of(call[0]) is not None) == bool(signal)]
            if not places:
                continue
            these = [calls[i] for i in places]
            if signal:
                these = [(Resumable(fn, self.max_num_timeout), args, kwargs) for fn, args, kwargs in these]
            for i, future in zip(places, self._pools.submit(self.parameters, these, signal)):
                jobs[i] = self.job_class._of(self.folder, future)
        return [job for job in jobs if job is not None]


class Batch:
    """The calls of a `with executor.batch()` block, and their future jobs."""

    def __init__(self, executor: AutoExecutor, is_implicit: bool) -> None:
        self._executor = executor
        self._is_implicit = is_implicit
        self._calls: list[Call] = []
        self._jobs: list[Job[Any]] = []

    def add(self, call: Call) -> Job[Any]:
        job = self._executor.job_class._of(self._executor.folder, None, self)
        self._calls.append(call)
        self._jobs.append(job)
        return job

    def asked_for(self) -> None:
        """A program reads an attribute of a job.  AttributeError: it is too early."""
        if not self._is_implicit:
            raise AttributeError(_LOST.format("id, state or result"))
        self.hand_over()

    def hand_over(self) -> int:
        """Submits the collected calls; returns how many jobs were queued."""
        calls, jobs = self._calls, self._jobs
        self._calls, self._jobs = [], []
        try:
            if calls:
                for job, submitted in zip(jobs, self._executor._submit(calls)):
                    job._future = submitted._future
        finally:
            for job in jobs:
                job._batch = None
        return len(jobs)

    def close(self) -> None:
        """Drops the calls that were not submitted."""
        for job in self._jobs:
            job._batch = None
