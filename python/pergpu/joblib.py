"""Runs joblib's loops as jobs of pergpu, also those inside libraries, such as scikit-learn's searches.

    import joblib, pergpu.joblib

    with joblib.parallel_config("pergpu", gpus=1, timeout="2h"):
        scores = joblib.Parallel()(joblib.delayed(train)(lr) for lr in (0.1, 0.01, 0.001))

Keys are those of Executor.  The import registers the name with joblib, which can't find it by itself.

A batch of tasks is a call of an Executor.  Short tasks are collected in batches, as with joblib's own
processes.  Parallel loops inside a task run in threads of the job, as with any joblib backend; they become
more jobs only if you name "pergpu" there again.  An array that many tasks use is stored in one file
(_joblib_arrays.py).  Needs joblib 1.2 or later.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeout
from multiprocessing import TimeoutError as OldTimeout
from typing import Any

from joblib._parallel_backends import AutoBatchingMixin, FallbackToBackend, ParallelBackendBase, SequentialBackend
from joblib.parallel import register_parallel_backend

from ._executor import Executor, _gpus_of_machine, fitting
from ._future import Future
from ._joblib_arrays import Arrays, _File
from ._pickling import describe

__all__ = ["Backend", "register"]

# What Parallel tells every backend, and is no key of a job.
_OF_JOBLIB = ("context", "idle_worker_timeout", "max_nbytes", "mmap_mode", "temp_folder", "verbose")


class Backend(AutoBatchingMixin, ParallelBackendBase):
    """The backend "pergpu".  n_jobs: at most N at once; -1, which is the default within parallel_config():
    as many as there are GPUs, or lanes; 1: in this process, as with all backends of joblib.

    All loops of one `with` are calls of one sweep.  `reuse=False`: a process for each batch, which is the
    default if you set `retries`; otherwise processes run one batch after another until the loop ends."""

    supports_retrieve_callback = True
    supports_timeout = True
    supports_inner_max_num_threads = True
    default_n_jobs = -1

    def __init__(self, nesting_level: int | None = None, inner_max_num_threads: int | None = None, **keys: Any) -> None:
        super().__init__(nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads)
        self.parallel: Any = None
        self._keys: dict[str, Any] = keys
        self._room: int | None = None
        self._executor: Executor | None = None
        self._arrays: Arrays | None = None
        self._aborted = False

    # How many.

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            return 1
        # With 1 joblib runs the loop in this process, which has no GPU: who asks for all of them gets jobs.
        return n_jobs if n_jobs > 0 else max(self._width(n_jobs), 2)

    def _width(self, n_jobs: int) -> int:
        if n_jobs > 0:
            return n_jobs
        if self._keys.get("on", "local") != "local":
            raise ValueError(f"n_jobs={n_jobs}: the number of jobs that a cluster has room for is unknown; pass a number")
        if self._room is None:
            gpus = self._keys.get("gpus", 1)
            if gpus == "auto":
                raise ValueError(f'n_jobs={n_jobs}: with gpus="auto" the number of jobs that fit is unknown; pass a number')
            self._room = self._keys.get("lanes") or (fitting(_gpus_of_machine(), gpus) if gpus else os.cpu_count())
        return max((self._room or 1) + 1 + n_jobs, 1)

    # A loop begins and ends.

    def configure(
        self, n_jobs: int = 1, parallel: Any = None, prefer: Any = None, require: Any = None, **more: Any
    ) -> int:
        count = self.effective_n_jobs(n_jobs)
        if count == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        self.parallel = parallel
        keys = {**self._keys, **{name: value for name, value in more.items() if name not in _OF_JOBLIB}}
        here = keys.get("on", "local") == "local"
        if not keys.setdefault("reuse", here and not keys.get("retries")):
            # Seconds that a batch should take: an interpreter and its imports take some, too.
            self.MIN_IDEAL_BATCH_DURATION, self.MAX_IDEAL_BATCH_DURATION = 2, 10
        threads = self.inner_max_num_threads
        if threads is not None:
            keys["env"] = {**dict.fromkeys(self.MAX_NUM_THREADS_VARS, str(threads)), **keys.get("env", {})}
        self._executor = Executor(self._width(n_jobs), **keys)
        self._keys.setdefault("name", self._executor.name)
        calls = None if more.get("temp_folder") else self._executor._jobs.calls
        folder = more["temp_folder"] if calls is None else calls.path + "/arrays"
        self._arrays = Arrays(folder, calls, more.get("max_nbytes"), more.get("mmap_mode"))
        self._aborted = False
        return count

    def terminate(self) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=not self._aborted)
        if self._arrays is not None:
            self._arrays.remove()
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """A task has failed: the results of the others are not used."""
        executor, self._aborted = self._executor, True
        if executor is not None:
            executor.terminate_workers()
        if ensure_ready:
            self.terminate()
            self.configure(self.parallel.n_jobs, self.parallel, **_arguments_of(self.parallel))

    # A batch.

    def submit(self, func: Any, callback: Callable[[Any], Any] | None = None) -> Future:
        assert self._executor is not None and self._arrays is not None
        arrays, used = self._arrays, set[_File]()
        future = self._executor.submit(_Batch(func, arrays, used))
        future.add_done_callback(lambda _: arrays.release(used))
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Future) -> Any:
        return out.result()

    def apply_async(self, func: Any, callback: Callable[[Any], Any] | None = None) -> Any:
        """The same for joblib before 1.3, which asks for the result by get()."""
        asked = _Asked(self.submit(func))
        if callback is not None and asked.future.number >= 0:  # else it would submit the next one within this one
            asked.future.add_done_callback(callback)
        return asked


class _Asked:
    def __init__(self, future: Future) -> None:
        self.future = future

    def get(self, timeout: float | None = None) -> Any:
        try:
            return self.future.result(timeout)
        except FutureTimeout as error:
            if self.future.done():
                raise  # the task's own
            raise OldTimeout from error


class _Batch:
    """Some tasks.  Unpickling them imports this module, so "pergpu" is known in that process, too."""

    def __init__(self, tasks: Any, arrays: Arrays, used: set[_File]) -> None:
        self._tasks = tasks
        self._arrays = arrays
        self._used = used
        name = describe(tasks.items[0][0]) if getattr(tasks, "items", None) else "no task"
        self.__qualname__ = name if len(tasks) == 1 else f"{len(tasks)} × {name}"

    def __call__(self) -> Any:
        return self._tasks()

    def __reduce__(self) -> tuple[Any, ...]:
        pickled, buffers = self._arrays.dump(self._tasks, self._used)
        return _loaded, (pickled, [pickle.PickleBuffer(buffer) for buffer in buffers])


def _loaded(pickled: bytes, buffers: list[Any]) -> Any:
    return pickle.loads(pickled, buffers=buffers)


def _arguments_of(parallel: Any) -> dict[str, Any]:
    """joblib's options for this backend; before 1.4 their name was args."""
    arguments = getattr(parallel, "_backend_kwargs", None) or parallel._backend_args
    return {name: value for name, value in arguments.items() if name not in ("prefer", "require")}


def register() -> None:
    """Registers "pergpu" with joblib; the import has already done that."""
    register_parallel_backend("pergpu", Backend)


register()
