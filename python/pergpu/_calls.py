"""The calls of an executor, on their way into the queue and back.

submit() writes the call to a file and returns.  One thread submits the collected calls together, as rows
added to a sweep.  Another thread follows the jobs (_link.py) and updates the futures.  Submitted calls
don't need this process any more: `attach` finds them again.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import _payload, _private
from ._calls_folder import CallsFolder
from ._future import ENDED, Future
from ._held import HeldJobs
from ._known import exported_of
from ._large import Large, sync_in
from ._link import Link
from ._pool import INTERRUPTED, Pool, cancel, running
from ._program_calls import CommandFailed, ask_json

_AT_ONCE = 2_000  # calls that are handed over together

HandOver = Callable[[Sequence["dict[str, Any]"]], "dict[str, Any]"]
"""Turns the rows into jobs; returns the output of `pergpu submit --json`."""


class Calls(Pool):
    """Calls that get a process each.  `head`: data about the submitting program for _call.py."""

    def __init__(self, head: Callable[[], dict[str, Any]], hand_over: HandOver, folder: CallsFolder | None = None) -> None:
        super().__init__()
        self._folder = folder  # None: no calls come in
        self._head = head
        self._hand_over = hand_over
        self._large = Large()
        self._next: int | None = None  # a number that may be free; None: nobody has looked
        self._waiting: deque[Future] = deque()
        self._sending: list[Future] = []
        self._jobs: dict[int, Future] = {}  # those that have not ended
        self._ids: weakref.WeakKeyDictionary[Future, int] = weakref.WeakKeyDictionary()
        self._early: dict[int, dict[str, Any]] = {}  # told of before we knew that they are ours
        self._held = HeldJobs()
        self._drops_held = False
        self._sender: threading.Thread | None = None
        self._link: Link | None = None

    # In.

    def submit(
        self, what: str, pickled: bytes, buffers: Sequence[memoryview], digest: str | None = None
    ) -> Future:
        """Queues a call.  `folder`: of the sweep; `digest`: by which a later run knows that it's the same.  What check() raises."""
        assert self._folder is not None
        at = self._folder.made()
        number = self._claim_number(at)
        head = self._head() if digest is None else {**self._head(), "digest": digest}
        placed = self._large.placed(self._folder.path, at, buffers)
        _payload.write(self._file_of(number), head, pickled, placed, durable=False, at=at)
        future = Future(self, number, what)
        try:
            with self._lock:
                self.check()
                if self._sender is None:
                    self._start_threads()
                self._waiting.append(future)
                self._changed.notify_all()
        except BaseException:  # such as Ctrl-C, which comes at any moment
            with self._lock:
                self._changed.notify_all()
            raise
        return future

    def _start_threads(self) -> None:
        """RuntimeError: the interpreter is shutting down."""
        try:
            link = Link(None, self._on_job, self.break_down)
            sender = threading.Thread(target=self._send, name="pergpu-submit", daemon=True)
            self._link, self._sender = link, sender
            sender.start()
        except RuntimeError:
            if self._link is not None:
                self._link.close()
            self._link = self._sender = None
            raise
        except BaseException as error:
            if self._sender is not None and self._sender.ident is None:
                self._sender = None  # it has not started
            self.break_down(INTERRUPTED, error)
            raise
        self._hold()
        running.add(self)

    def _claim_number(self, at: int) -> int:
        """No other process that adds to this sweep gets the same."""
        with self._lock:
            if self._next is None:
                taken = [int(name) for name in os.listdir(at) if name.isdigit()]
                if not taken and self.tidy is None:  # somebody may have removed the folder of a sweep that pergpu knows
                    assert self._folder is not None
                    taken = _known_numbers(self._folder.sweep)
                self._next = max(taken, default=-1) + 1
            while True:
                number, self._next = self._next, self._next + 1
                try:
                    os.close(_private.open_in(at, str(number), os.O_CREAT | os.O_EXCL))
                    return number
                except FileExistsError:
                    continue

    def _file_of(self, number: int) -> str:
        assert self._folder is not None
        return f"{self._folder.path}/{number}"

    def resume(self, job: dict[str, Any], what: str) -> Future:
        """A call of an earlier run that has returned, waits or runs.  Raises as check() does."""
        future = Future(self, int(job["params"]["number"]), what)
        with self._lock:
            self.check()
            self._ids[future] = job["id"]
            if job["state"] in ENDED:
                future.see(job)
                return future
            if self._sender is None:
                self._start_threads()
            self._jobs[job["id"]] = future
            assert self._link is not None
            self._link.follow(job["sweep_id"])
        self._on_job(ask_json(["show", str(job["id"])])["jobs"][0])  # what the link has told before
        return future

    def adopt(self, sweep_id: int, futures: dict[int, Future]) -> None:
        """Follows existing jobs, by id."""
        with self._lock:
            self._closed = True
            self._ids.update({future: job for job, future in futures.items()})
            self._jobs = {job: future for job, future in futures.items() if not future.done()}
            if self._jobs:
                self._link = Link(sweep_id, self._on_job, self.break_down)

    def _send(self) -> None:
        while True:
            with self._lock:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if not self._waiting:
                    break
                self._sending = [self._waiting.popleft() for _ in range(min(len(self._waiting), _AT_ONCE))]
                self._early.clear()
            rows = [{"number": one.number, "what": one.what} for one in self._sending]
            try:
                self._large.sync()
                assert self._folder is not None
                at = self._folder.made()
                for row in rows:
                    sync_in(at, str(row["number"]))
                os.fsync(at)
                self._know(self._hand_over(rows))
            except Exception as error:  # who waits for these calls must not wait for ever
                self.break_down(str(error) or repr(error), error)
        self._leave_when_done()

    def _know(self, reply: dict[str, Any]) -> None:
        with self._lock:
            known = dict(zip(reply["jobs"], self._sending))
            self._ids.update({future: job for job, future in known.items()})
            self._jobs.update(known)
            early = [self._early.pop(job) for job in known if job in self._early]
            self._sending = []
            if self._link is not None:
                self._link.follow(reply["sweep_id"])
            broken = self.why_broken is not None
            self._changed.notify_all()
        if broken:  # meanwhile
            cancel(reply["jobs"], "--queued")
        for outcome in early:
            self._on_job(outcome)

    # Out.

    def _on_job(self, outcome: dict[str, Any]) -> None:
        job = outcome["id"]
        with self._lock:
            future = self._jobs.get(job)
            if future is None:
                if self._sending:
                    self._early[job] = outcome
                return
        self._held.see(outcome, f"call {future.what}", self)
        if future.see(outcome):
            self._forget([job])
        elif outcome["state"] == "held" and self._drops_held:
            self._drop([job])

    def _forget(self, jobs: Sequence[int]) -> None:
        with self._lock:
            for job in jobs:
                self._jobs.pop(job, None)
            self._changed.notify_all()
        self._leave_when_done()

    def _leave_when_done(self) -> None:
        with self._lock:
            link = self._link
            if not self._closed or self._waiting or self._sending or self._jobs:
                return
        self._hold_no_longer()
        if link is not None:
            link.close()

    def break_down(self, why: str, cause: BaseException | None = None) -> None:
        """Fails every call that has not ended, and accepts no more."""
        with self._lock:
            if self.why_broken is not None:
                return
            self.why_broken = why
            self._cause = cause
            queued = [*self._jobs]
            futures = [*self._waiting, *self._sending, *self._jobs.values()]
            self._waiting.clear()
            self._sending = []
            self._jobs.clear()
            self._closed = True
            self._changed.notify_all()
        for future in futures:
            future.break_down(why, cause)
        if queued:
            try:
                cancel(queued, "--queued")
            except (CommandFailed, OSError):
                pass  # why it broke down
        self._leave_when_done()

    # What is asked of it.

    def has_started(self, future: Future) -> bool:
        return future.outcome is not None and future.outcome["state"] in ("starting", "running", "stopping")

    def job_of(self, future: Future) -> int:
        with self._lock:
            while future not in self._ids:
                if future not in self._waiting and future not in self._sending:
                    raise RuntimeError(f"{future!r} never became a job")
                self._changed.wait()
            return self._ids[future]

    def cancel(self, future: Future) -> bool:
        with self._lock:
            here = future in self._waiting
            if here:
                self._waiting.remove(future)
                self._changed.notify_all()
        if here:
            return future.give_up()
        if future.done() or future.running():
            return future.cancelled()
        try:
            job = self.job_of(future)
            changed = job in cancel([job], "--queued")
        except (CommandFailed, OSError, RuntimeError):
            return future.cancelled()
        if changed:
            self._given_up([job])
        return future.cancelled()

    def cancel_queued(self, only: Iterable[Future] | None = None) -> None:
        """Cancels all calls that have not started, or those among the given ones."""
        with self._lock:
            chosen = {*self._waiting, *self._sending, *self._jobs.values()}
            if only is not None:
                chosen &= {*only}
            waiting = [future for future in self._waiting if future in chosen]
            self._waiting = deque(future for future in self._waiting if future not in chosen)
            self._changed.notify_all()
            while not chosen.isdisjoint(self._sending):
                self._changed.wait()
            jobs = [job for job, future in self._jobs.items() if future in chosen and not future.running()]
        for future in waiting:
            future.give_up()
        if jobs:
            self._given_up(cancel(jobs, "--queued"))

    def drop_held(self) -> None:
        """Cancels held calls, now and whenever a call becomes held."""
        with self._lock:
            self._drops_held = True
            held = [job for job, future in self._jobs.items() if future.outcome and future.outcome["state"] == "held"]
        self._drop(held)

    def _drop(self, held: Sequence[int]) -> None:
        if held:
            with contextlib.suppress(CommandFailed, OSError):
                self._given_up(cancel(held, "--queued"))

    def end_all(self, *words: str) -> None:
        """Ends running calls, too: their futures get a JobFailed."""
        self.cancel_queued()
        with self._lock:
            jobs = [*self._jobs]
        cancel(jobs, *words)

    def _given_up(self, jobs: Sequence[int]) -> None:
        with self._lock:
            futures = [(job, self._jobs[job]) for job in jobs if job in self._jobs]
        # One that had run before, and waited for its next attempt, learns from the link that it has failed.
        self._forget([job for job, future in futures if future.give_up()])

    # The end.

    def close(self) -> None:
        """Accepts no more calls."""
        with self._lock:
            self._closed = True
            self._changed.notify_all()
        if self._sender is None:
            self._leave_when_done()

    def leave(self) -> int:
        """Lets the calls continue without this process; returns how many have not ended."""
        self.close()
        if self._sender is not None:
            self._sender.join()  # until all are handed over
        running.discard(self)
        with self._lock:
            return len(self._jobs)

    def join(self) -> None:
        """Waits until all calls have ended.  REQUIRES: closed.  A callback does not wait: it runs in a thread
        that this waits for."""
        link, sender = self._link, self._sender
        if link is None or sender is None or link.is_here() or sender is threading.current_thread():
            return
        sender.join()
        with self._lock:
            while self._jobs:
                self._changed.wait()
        link.join()


def _known_numbers(sweep: str) -> list[int]:
    """For calls whose jobs exist: another call with the same number and name would be taken for the same one."""
    with contextlib.suppress(CommandFailed, OSError):  # who hands over tells
        return [int(job["params"]["number"]) for job in exported_of(sweep) if job["step"] == "call"]
    return []
