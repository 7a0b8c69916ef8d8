"""A call with the interface of submitit's jobs."""

from __future__ import annotations

import concurrent.futures
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .._attach import attach
from .._future import Future, RemoteTraceback
from ._errors import FailedJobError, UncompletedJobError
from ._logs import log_of, state_of

if TYPE_CHECKING:
    from ._executor import Batch

R = TypeVar("R")


class JobPaths:
    """The paths of a job.  stdout and stderr are one file in pergpu."""

    def __init__(self, outcome: dict[str, Any]) -> None:
        self.folder = Path(outcome["out"])
        self.stdout = self.stderr = Path(outcome["log"])
        self.result_pickle = self.folder / "result"

    def __repr__(self) -> str:
        return f"JobPaths({str(self.folder)!r})"


class Job(Generic[R]):
    """One call.  `Job(folder, job_id)` finds it again, also in another program and after a reboot; jobs
    can be pickled, too.  `future` is the pergpu.Executor's future, with its whole interface.

    ValueError: the job with that id was not submitted from Python.
    """

    num_tasks = 1

    def __init__(self, folder: str | os.PathLike[str], job_id: str | int) -> None:
        self._begin(folder, attach(str(job_id))[0], None)

    @classmethod
    def _of(cls, folder: str | os.PathLike[str], future: Future | None, batch: Batch | None = None) -> Job[Any]:
        job: Job[Any] = cls.__new__(cls)
        job._begin(folder, future, batch)
        return job

    def _begin(self, folder: str | os.PathLike[str], future: Future | None, batch: Batch | None) -> None:
        self._folder = os.fspath(folder)
        self._future = future
        self._batch = batch
        self._is_cancelled_at_deletion = False

    def __repr__(self) -> str:
        if self._future is None:
            return f"{type(self).__name__}<not submitted>"
        return f'{type(self).__name__}<job_id={self.job_id}, task_id=0, state="{self.state}">'

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._folder, self.job_id)

    @property
    def future(self) -> Future:
        """AttributeError: its batch was not submitted."""
        if self._future is None and self._batch is not None:
            self._batch.asked_for()
        if self._future is None:
            raise AttributeError("this job belongs to a batch that was dropped because of an error")
        return self._future

    # What becomes of it.

    @property
    def job_id(self) -> str:
        """The id for pergpu: `pergpu show ID`."""
        return str(self.future.job)

    @property
    def state(self) -> str:
        """As Slurm's states: PENDING, RUNNING, COMPLETING, COMPLETED, FAILED, TIMEOUT, NODE_FAIL, CANCELLED."""
        return state_of(self.future)

    def done(self, force_check: bool = False) -> bool:
        """Whether it has ended.  Needs no query, since pergpu reports changes; `force_check` is for compatibility."""
        return self.future.done()

    def wait(self) -> None:
        """Waits until it has ended."""
        concurrent.futures.wait([self.future])

    def result(self) -> R:
        """The result of the call.

        FailedJobError: the function raised an exception, which is the cause.  UncompletedJobError: the job
        did not complete.
        """
        error = self.exception()
        if error is not None:
            raise error
        returned: R = self.future.result()
        return returned

    def results(self) -> list[R]:
        """The result in a list: a job has one task."""
        return [self.result()]

    def exception(self) -> UncompletedJobError | None:
        """The exception, without raising it; None if the call has returned."""
        try:
            error = self.future.exception()
        except concurrent.futures.CancelledError:
            return UncompletedJobError(f"job {self.job_id} was cancelled before it started")
        if error is None or isinstance(error, UncompletedJobError):
            return error
        trace = error.__cause__
        if isinstance(trace, RemoteTraceback):
            told: UncompletedJobError = FailedJobError(f"job {self.job_id} has raised:\n{trace.args[0]}")
        else:
            told = UncompletedJobError(str(error))
        told.__cause__ = error
        return told

    def task(self, task_id: int) -> Job[R]:
        """Returns this job.  ValueError: there is only task 0."""
        if task_id != 0:
            raise ValueError(f"task_id is {task_id}; expected 0, since a job of pergpu has one task")
        return self

    # What it has printed.

    @property
    def paths(self) -> JobPaths:
        """Its folder and its log; waits until it has started or ended, because there are none before."""
        outcome = self.future.outcome
        if outcome is None:
            from .._program_calls import ask_json

            outcome = ask_json(["show", self.job_id])["jobs"][0]
        return JobPaths(outcome)

    def stdout(self) -> str | None:
        """The output of all its attempts, stdout and stderr: a job of pergpu has one log.  None:
        it has not started."""
        return log_of(self.future.outcome)

    def stderr(self) -> str | None:
        """The same log."""
        return self.stdout()

    # To end it.

    def cancel(self, check: bool = True) -> None:
        """Ends it, wherever it runs, and does not wait for that.  `check`: raises errors."""
        try:
            self.future.kill()
        except Exception:
            if check:
                raise

    def cancel_at_deletion(self, value: bool = True) -> Job[R]:
        """Whether it is cancelled when no program holds this object any more."""
        self._is_cancelled_at_deletion = value
        return self

    def __del__(self) -> None:
        if getattr(self, "_is_cancelled_at_deletion", False) and self._future and not self._future.done():
            self.cancel(check=False)
