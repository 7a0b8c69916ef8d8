"""The futures of calls that another Python process submitted."""

from __future__ import annotations

import glob
import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from . import _payload
from ._calls import Calls
from ._future import ENDED, Future
from ._held import HeldJobs
from ._known import NOTHING, exported, exported_of, settings_file
from ._link import Link
from ._program_calls import CommandFailed, ask_json
from ._queue import CANCELLED, FREE, Queue
from ._results_log import Found, Reader
from ._words import in_python

_PIECE = 1 << 20  # bytes that are read at once


def attach(name: str = "@", *, out: str | os.PathLike[str] | None = None) -> list[Future]:
    """Returns the futures of an executor's calls, in the order of submission.

    `name`: the executor's name; "@" is the one that was used last.  This also works after the Python
    process that submitted the calls was killed, and after a reboot: finished calls have their results.

    `out`: the root of the executor's folders.  None: "runs" if the name is there, else any folder.

    With `reuse`, workers end when no work is left.  The results of their last calls appear only then.
    CommandFailed: no sweep has that name.  ValueError: the sweep isn't an executor's.
    """
    if not isinstance(name, str):
        raise TypeError(f"name is {name!r}; expected the name of an executor, as str")
    try:
        jobs = _jobs_of(name, out)
    except CommandFailed as error:
        raise CommandFailed("export", error.code, in_python(str(error))) from None
    calls = [job for job in jobs if job["step"] == "call" and "what" in (job.get("params") or {})]
    if calls:
        return _calls(sorted(calls, key=lambda job: int(job["params"]["number"])))
    workers = [job for job in jobs if job["step"] == "worker" and "queue" in (job.get("params") or {})]
    if workers:
        return _calls_of_workers(workers)
    raise ValueError(f"{name} isn't the sweep of an executor: none of its jobs is a call")


def _jobs_of(name: str, out: str | os.PathLike[str] | None) -> list[dict[str, Any]]:
    sweep = os.path.join(os.path.abspath("runs" if out is None else out), name)
    jobs = exported_of(sweep) if out is not None or os.path.exists(settings_file(sweep)) else []
    if not jobs and out is not None:
        raise CommandFailed("export", NOTHING, f"no calls are named {name!r} in {os.path.dirname(sweep)}")
    return jobs or exported(name)


def _calls(jobs: Sequence[Mapping[str, Any]]) -> list[Future]:
    calls = Calls(dict, _nothing)
    calls.no_result = "it left no result, or its executor had no name: results that were read are then removed at the end"
    by_id = {job["id"]: Future(calls, job["params"]["number"], job["params"]["what"]) for job in jobs}
    for job in jobs:
        by_id[job["id"]].see(dict(job))
    calls.adopt(jobs[0]["sweep_id"], by_id)
    return [*by_id.values()]


def _nothing(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    raise RuntimeError("only looked at")


def _calls_of_workers(workers: Sequence[dict[str, Any]]) -> list[Future]:
    futures: list[Future] = []
    for queue in sorted({job["params"]["queue"] for job in workers}, key=lambda name: int(name.rpartition("-")[2])):
        if not os.path.exists(os.path.join(workers[0]["out"], "../../_calls", queue)):
            continue  # the program has read all of it, and has ended
        futures += _Queued([job for job in workers if job["params"]["queue"] == queue]).futures
    return futures


class _Queued:
    """A queue whose executor is gone: the results of its calls are read when a worker ends."""

    def __init__(self, workers: Sequence[dict[str, Any]]) -> None:
        first = workers[0]
        self._lock = threading.Lock()
        self._queue = Queue(os.path.join(first["out"], "../../_calls", first["params"]["queue"]))
        self._read_to: dict[str, tuple[Reader, int]] = {}  # by file
        self._jobs = {job["id"]: job for job in workers}
        self._held = HeldJobs()
        self._link: Link | None = None
        self.futures = [Future(self, number, f"call {number}") for number in range(len(self._queue))]
        self._open = {future.number for future in self.futures}
        for future in self.futures:
            if self._queue.owner(future.number) == CANCELLED:
                self._open.discard(future.number)
                future.give_up()
        for job in workers:
            self._look(job)
        if self._open:
            self._go_on()
            self._link = Link(first["sweep_id"], self._on_job, self.break_down)

    def _go_on(self) -> None:
        """If calls are waiting and no worker is left, restarts the workers that failed."""
        if self._queue.free() and all(job["state"] in ENDED for job in self._jobs.values()):
            ended = [str(job["id"]) for job in self._jobs.values() if job["state"] != "done"]
            for job in ask_json(["retry", *ended])["changed"] if ended else ():
                self._jobs[job] = {**self._jobs[job], "state": "queued"}

    def _on_job(self, job: dict[str, Any]) -> None:
        if job["id"] in self._jobs:
            self._held.see(job, "a worker", self)
            self._look({**self._jobs[job["id"]], **job})
            if not self._open and self._link is not None:
                self._link.close()

    def _look(self, job: dict[str, Any]) -> None:
        with self._lock:
            self._jobs[job["id"]] = job
            ended = job["state"] in ENDED
            if not ended and job["state"] != "running":
                return
            for number, found in self._read(job):
                if "ok" in found.head and number in self._open:
                    self._open.discard(number)
                    self.futures[number].finish(found, job)
            if not ended:
                return
            lost = [number for number in self._open if self._queue.owner(number) == job["id"]]
            self._open.difference_update(lost)
            if self._queue.free() == 0 or any(one["state"] not in ENDED for one in self._jobs.values()):
                lost_for_ever: list[int] = []
            else:
                lost_for_ever = [number for number in self._open if self._queue.owner(number) == FREE]
        for number in lost:
            self.futures[number].fail(job)
        if self._link is not None:  # they had begun again, and end again without having taken these
            for number in lost_for_ever:
                self._open.discard(number)
                self.futures[number].fail(job)

    def _read(self, job: dict[str, Any]) -> list[tuple[int, Found]]:
        found: list[tuple[int, Found]] = []
        for path in glob.glob(glob.escape(job["out"]) + "/results-*"):
            reader, at = self._read_to.get(path, (Reader(), 0))
            try:
                file = _payload.open_ours(path)
            except (OSError, _payload.NotOurs) as error:
                warnings.warn(str(error), RuntimeWarning, stacklevel=2)
                continue
            with file:
                file.seek(at)
                while piece := file.read(_PIECE):
                    at += len(piece)
                    found += reader.feed(piece)
            self._read_to[path] = (reader, at)
        return found

    # What a Future asks.

    def break_down(self, why: str, cause: BaseException | None = None) -> None:
        """No coordinator can be reached."""
        with self._lock:
            futures = [self.futures[number] for number in self._open]
            self._open.clear()
        for future in futures:
            future.break_down(why, cause)

    def has_started(self, future: Future) -> bool:
        return self._queue.owner(future.number) not in (FREE, CANCELLED)

    def job_of(self, future: Future) -> int:
        if not self.has_started(future):
            raise RuntimeError(f"{future!r}: no worker has taken it")
        return self._queue.owner(future.number)

    def cancel(self, future: Future) -> bool:
        if future.done() or not self._queue.cancel(future.number):
            return future.cancelled()
        with self._lock:
            self._open.discard(future.number)
        return future.give_up()
