"""pergpu as a cluster of the package submitit: `submitit.AutoExecutor(folder, cluster="pergpu")`.

submitit finds the two classes below by the entry points of our wheel.  Its files stay the same, so that other
tools can still read them: the pickle of the call, the pickle of the result, and the log, which is a link to
pergpu's.  A job runs submitit's own process_job(); pergpu adds the GPU, the queue, the limits, and the
handling of exit code 75.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import os
import signal
import sys
import types
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from submitit.core import core, job_environment, logger, submission, utils

from .._attach import attach
from .._deferred_handler import DeferredHandler
from .._ending import end
from .._future import Future
from .._metrics import flush
from .._pickling import describe
from .._program import program
from ._logs import log_of, state_of
from ._parameters import KEYS, STEP_KEYS, names_of
from ._pools import Call, Pools
from ._resume import MOST

_SHOWN = (bool, int, float, str, type(None))


class PergpuJob(core.Job):
    """A job of submitit whose state comes from a future of pergpu, not from a polling watcher."""

    _cancel_command = "pergpu"

    def __init__(
        self, folder: str | Path, job_id: str, tasks: Sequence[int] = (0,), future: Future | None = None
    ) -> None:
        self._future = future
        super().__init__(folder, job_id, tasks)

    @property
    def future(self) -> Future:
        """pergpu.Executor's future; found again by the id if this object was made from the id."""
        if self._future is None:
            self._future = attach(self.job_id)[0]
        return self._future

    def done(self, force_check: bool = False) -> bool:
        return self.future.done()

    def wait(self) -> None:
        concurrent.futures.wait([self.future])

    @property
    def state(self) -> str:
        return state_of(self.future)

    def get_info(self, mode: str = "force") -> dict[str, str]:
        return {"jobState": self.state}

    def cancel(self, check: bool = True) -> None:
        try:
            self.future.kill()
        except Exception:
            if check:
                raise

    def _get_outcome_and_result(self) -> tuple[str, Any]:
        if not self.paths.result_pickle.exists():
            raise utils.UncompletedJobError(f"job {self.job_id} did not complete: {self._why()}")
        outcome: tuple[str, Any] = utils.pickle_load(self.paths.result_pickle)
        return outcome

    def _why(self) -> str:
        try:
            return str(self.future.exception())
        except concurrent.futures.CancelledError:
            return "it was cancelled before it started"

    def _get_logs_string(self, name: str) -> str | None:
        return log_of(self.future.outcome)

    def __del__(self) -> None:
        if self._cancel_at_deletion and self._future is not None and not self._future.done():
            self.cancel(check=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_future": None}


class PergpuJobEnvironment(job_environment.JobEnvironment):
    """One task on one node.  submitit handles the signal before the end; SIGTERM is the end."""

    _env = {
        "job_id": "PERGPU_JOB",
        "num_tasks": "SUBMITIT_PERGPU_NTASKS",  # these are never set: rank 0 of 1
        "num_nodes": "SUBMITIT_PERGPU_NNODES",
        "node": "SUBMITIT_PERGPU_NODE",
        "global_rank": "SUBMITIT_PERGPU_GLOBAL_RANK",
        "local_rank": "SUBMITIT_PERGPU_LOCAL_RANK",
    }

    def _handle_signals(self, paths: Any, submission: Any) -> None:
        handler = job_environment.SignalHandler(self, paths, submission)
        signal.signal(self._usr_sig(), DeferredHandler(handler.checkpoint_and_try_requeue))

    def _requeue(self, countdown: int) -> None:
        logger.get_logger().info(f"Requeued job {self.job_id} ({countdown} remaining timeouts)")
        end(flush, is_signaled=True)


class PergpuExecutor(core.Executor):
    """Parameters are submitit's; the keys of a pergpu step have the prefix `pergpu_`."""

    job_class = PergpuJob

    def __init__(
        self, folder: str | Path, max_num_timeout: int = 3, max_pickle_size_gb: float = 1.0
    ) -> None:
        super().__init__(folder)
        if not 0 <= max_num_timeout <= MOST:
            raise ValueError(f"max_num_timeout is {max_num_timeout}, and a job may continue at most {MOST} times")
        self.max_num_timeout = max_num_timeout
        self.max_pickle_size_gb = max_pickle_size_gb
        self._pools = Pools(folder)

    @classmethod
    def affinity(cls) -> int:
        """Never the default: installing pergpu doesn't change submitit's choice."""
        try:
            program()
        except FileNotFoundError:
            return -1
        return 0

    @classmethod
    def _valid_parameters(cls) -> set[str]:
        """None of them belongs to another executor: submitit guesses the executor by the parameter's name."""
        return set(STEP_KEYS)

    def _internal_update_parameters(self, **given: Any) -> None:
        named = {f"pergpu_{name}" if name in KEYS else name: value for name, value in given.items()}
        wanted = {**self.parameters, **names_of(named)}
        self._pools.of(wanted, PergpuJobEnvironment.USR_SIG)
        self.parameters.update(wanted)

    def _internal_process_submissions(self, delayed_submissions: Sequence[Any]) -> list[Any]:
        begin = utils.JobPaths.get_first_id_independent_folder(self.folder)
        begin.mkdir(parents=True, exist_ok=True)
        pickles = [begin / f"{uuid.uuid4().hex}.pkl" for _ in delayed_submissions]
        try:
            for path, delayed in zip(pickles, delayed_submissions):
                delayed.set_timeout(self.parameters.get("timeout_min", float("inf")), self.max_num_timeout)
                delayed.dump(path)
                self._check_size(path, len(pickles))
            calls = [_call(self.folder, path, one) for path, one in zip(pickles, delayed_submissions)]
            futures = self._pools.submit(self.parameters, calls, PergpuJobEnvironment.USR_SIG)
        except BaseException:
            for path in pickles:
                path.unlink(missing_ok=True)
            raise
        jobs = [self.job_class(self.folder, str(future.job), future=future) for future in futures]
        for job, path in zip(jobs, pickles):
            _settle(job.paths, path)
        return jobs

    def _check_size(self, path: Path, count: int) -> None:
        size = path.stat().st_size / 1024**3
        if count * size > self.max_pickle_size_gb:
            raise RuntimeError(
                f"{count} calls of about {size:.2f} GB are more than max_pickle_size_gb={self.max_pickle_size_gb}: "
                "load large data in the function, or raise max_pickle_size_gb"
            )


def _call(folder: Path, path: Path, delayed: Any) -> Call:
    """With its short arguments, for display in the queue."""
    args = tuple(map(_short, delayed.args))
    kwargs = {name: _short(value) for name, value in delayed.kwargs.items()}
    task = Task(folder, path, describe(delayed.function))
    task.shown_as = delayed.function
    return task, args, kwargs


def _short(value: Any) -> Any:
    return value if type(value) in _SHOWN and len(str(value)) <= 60 else type(value).__name__


def _settle(paths: Any, path: Path) -> None:
    """Renames the pickle of a call to a name with the job's id.  The job does that, too, and the first of the two
    wins: so neither waits for the other."""
    with contextlib.suppress(FileNotFoundError):
        paths.move_temporary_file(path, "submitted_pickle")


class Task:
    """Runs in a job.  It uses the arguments in the pickle; its own arguments are for display."""

    def __init__(self, folder: Path, path: Path, name: str) -> None:
        self._folder = folder
        self._path = path
        self.__qualname__ = name
        self.shown_as: Any = None
        """The function, for the names of its parameters; it isn't sent."""

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "shown_as": None}

    def __call__(self, *_: Any, **__: Any) -> None:
        os.environ["SUBMITIT_EXECUTOR"] = PergpuJobEnvironment.name()
        paths = utils.JobPaths(self._folder, job_id=os.environ["PERGPU_JOB"], task_id=0)
        _settle(paths, self._path)
        result = paths.result_pickle
        for left in (result, result.with_suffix(result.suffix + ".save_tmp")):  # by an attempt before
            left.unlink(missing_ok=True)
        _link(paths, os.environ)
        _put_names_into_main()
        submission.process_job(self._folder)


def _put_names_into_main() -> None:
    """submitit sends functions and classes of a script by value.  From here on, loading puts them into `__main__`,
    where pickle looks for them, so that children of multiprocessing can receive them."""
    load = utils.DelayedSubmission.load

    def loading(path: Any) -> Any:
        delayed = load(path)
        function = delayed.function
        while isinstance(function, functools.partial):
            function = function.func
        function = getattr(function, "__func__", function)
        if not isinstance(function, (types.FunctionType, type)):
            function = type(function)
        called = function if isinstance(function, types.FunctionType) else getattr(function, "__call__", None)
        main = vars(sys.modules["__main__"])
        for value in (function, *getattr(called, "__globals__", {}).values()):
            name = getattr(value, "__qualname__", ".")
            if getattr(value, "__module__", None) == "__main__" and name.isidentifier():
                main.setdefault(name, value)
        return delayed

    utils.DelayedSubmission.load = loading


def _link(paths: Any, env: Mapping[str, str]) -> None:
    for link in (paths.stdout, paths.stderr):
        with contextlib.suppress(FileExistsError):
            link.symlink_to(env["PERGPU_OUT"] + "/log.txt")
