"""Calls for warm workers: each worker is a job, and takes one call after the other.

submit() appends the call to the queue (_queue.py) and wakes an idle worker.  One thread reads the workers'
messages, starts workers, and learns from _link.py when one has ended: its current call then fails, and another
worker takes its place.  Workers don't need this process: if it dies, they run the calls in the queue, and
`attach` reads the results.
"""

from __future__ import annotations

import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from . import _private
from ._calls_folder import CallsFolder
from ._future import ENDED, Future, initializer_failed, last_lines
from ._held import HeldJobs
from ._large import Large
from ._link import Link
from ._pool import INTERRUPTED, Pool, cancel, running
from ._program_calls import CommandFailed
from ._queue import CANCELLED, FREE, Queue
from ._results_log import Found, Reader

_VAIN = 3  # workers that end before they have taken a call, and no other one returns one meanwhile
_SIGALRM = 14

Start = Callable[[str, int, int], "dict[str, Any]"]
"""Turns workers for the queue in this folder into jobs: the number of the first worker, and how many; returns
the output of `pergpu submit --json`."""


class _Worker:
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.reader = Reader()
        self.job = 0
        self.calls = 0  # that have ended


class Workers(Pool):
    """Like Calls (_calls.py), with the same methods.  At most `count` workers.  A call that takes longer than
    `timeout` seconds ends its worker; 0: no limit."""

    def __init__(self, count: int, timeout: float, head: Callable[[str, int, float], None], start: Start, folder: CallsFolder) -> None:
        super().__init__()
        self._folder = folder
        self._count = count
        self._timeout = timeout
        self._write_head = head
        self._start = start
        self._queue: Queue | None = None
        self._large = Large()
        self._futures: dict[int, Future] = {}  # those that have not ended, by number
        self._jobs: dict[int, dict[str, Any]] = {}  # of workers that have not ended, with what is known
        self._idle: list[_Worker] = []
        self._by_job: dict[int, _Worker] = {}
        self._early: dict[int, dict[str, Any]] | None = None  # told of before we knew that they are ours
        self._held = HeldJobs()
        self._drops_held = False
        self._ended: list[dict[str, Any]] = []  # workers of whose end the thread has not learnt yet
        self._started = 0
        self._synced = 0.0
        self._vain = 0
        self._told_to_end = False
        self._thread: threading.Thread | None = None
        self._link: Link | None = None
        self._selector: selectors.DefaultSelector
        self._wake_out: int
        self._wake_in = -1

    # In.

    def submit(self, what: str, pickled: bytes, buffers: Sequence[memoryview]) -> Future:
        """Queues a call.  `folder`: of the sweep, where the first one makes the queue.  What check() raises."""
        try:
            with self._lock:
                self.check()
                queue = self._queue or self._begin()
                number = queue.append(pickled, self._large.placed(queue.folder, queue.at, buffers) if buffers else ())
                future = self._futures[number] = Future(self, number, what)
                short = len(self._jobs) < min(self._count, len(self._futures))
                if self._idle:
                    _say(self._idle[-1], b"w")
                    del self._idle[-1]
                    short = False
            if short:
                self._wake()
        except BaseException:  # such as Ctrl-C, which comes at any moment
            self._wake()  # the thread wakes up who is to take the call, if it is there
            raise
        return future

    def _begin(self) -> Queue:
        calls = self._folder.made()
        number = 0
        while True:  # no other process that adds to this sweep gets the same
            try:
                os.mkdir(f"queue-{number}", 0o700, dir_fd=calls)
                break
            except FileExistsError:
                number += 1
        path = f"{self._folder.path}/queue-{number}"
        at = _private.private_in(calls, path)
        try:
            self._write_head(path + "/head", at, float(self._timeout))
        except BaseException:
            os.close(at)
            raise
        queue = Queue(path, create=True, at=at)
        self._selector = selectors.DefaultSelector()
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(f"/proc/self/fd/{queue.at}/socket")  # however long the path is
        listening.listen(128)
        listening.setblocking(False)
        self._listening = listening
        self._wake_out, self._wake_in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._selector.register(listening, selectors.EVENT_READ)
        self._selector.register(self._wake_out, selectors.EVENT_READ)
        try:
            self._queue = queue
            self._start_threads()
        except RuntimeError:
            self._queue = None
            raise
        except BaseException as error:
            if self._thread is not None and self._thread.ident is None:
                self._thread = None  # it has not started
            self.break_down(INTERRUPTED, error)
            raise
        self._hold()
        running.add(self)
        return queue

    def _start_threads(self) -> None:
        """Starts both now: when the interpreter ends and waits for calls, no thread can be started: RuntimeError."""
        link = Link(None, self._on_job, self.break_down)
        thread = threading.Thread(target=self._serve, name="pergpu-workers", daemon=True)
        self._link, self._thread = link, thread
        try:
            thread.start()
        except RuntimeError:
            link.close()
            self._link = self._thread = None
            raise

    def _wake(self) -> None:
        with self._lock:
            if self._wake_in < 0:
                return  # the thread has ended
            try:
                os.write(self._wake_in, b"w")
            except BlockingIOError:
                pass  # it will wake up

    # The thread.

    def _serve(self) -> None:
        while not self._is_over():
            try:
                self._turn()
            except BaseException as error:  # who waits for these calls must not wait for ever
                self.break_down(str(error) or repr(error), error)
        self._leave()

    def _turn(self) -> None:
        self._start_workers()
        self._wake_idle()
        for key, _ in self._selector.select():
            if key.fileobj is self._listening:
                self._accept()
            elif key.data is None:
                os.read(self._wake_out, 4096)
            else:
                self._read(key.data)
        with self._lock:
            ended, self._ended = self._ended, []
        for outcome in ended:
            self._worker_ended(outcome)
        if self._closed and not self._futures:
            self._end_workers()
        self._sync()

    def _leave(self) -> None:
        assert self._link is not None
        self._hold_no_longer()
        self._link.close()
        self._selector.close()
        for one in (self._listening, *(worker.connection for worker in self._by_job.values())):
            one.close()
        assert self._queue is not None
        os.unlink("socket", dir_fd=self._queue.at)
        with self._lock:  # others wake this thread, and append
            self._queue.close()
            os.close(self._wake_in)
            os.close(self._wake_out)
            self._wake_in = -1

    def _sync(self) -> None:
        """Submitted calls survive a power failure, except those of the last second."""
        assert self._queue is not None
        now = time.monotonic()
        if now - self._synced > 1:
            self._queue.sync()
            self._synced = now

    def _is_over(self) -> bool:
        with self._lock:
            return self._closed and not self._futures and not self._jobs

    def _start_workers(self) -> None:
        with self._lock:
            short = min(self._count, len(self._futures)) - len(self._jobs)
            if short <= 0 or self.why_broken is not None:
                return
            self._early = {}
        assert self._queue is not None
        self._queue.sync()
        reply = self._start(self._queue.folder, self._started, short)
        with self._lock:
            self._started += short
            early, self._early = self._early, None
            self._jobs.update({job: {} for job in reply["jobs"]})
            self._changed.notify_all()
            if self._link is not None:
                self._link.follow(reply["sweep_id"])
        for job in reply["jobs"]:
            if job in early:
                self._on_job(early[job])

    def _accept(self) -> None:
        connection, _ = self._listening.accept()
        connection.setblocking(False)
        self._selector.register(connection, selectors.EVENT_READ, _Worker(connection))

    def _read(self, worker: _Worker) -> bool:
        """False: it is gone, or has no message now."""
        try:
            data = worker.connection.recv(1 << 18)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            if worker.connection.fileno() >= 0:
                self._selector.unregister(worker.connection)
                worker.connection.close()
            return False
        for number, found in worker.reader.feed(data):
            if "job" in found.head:
                worker.job = found.head["job"]
                self._by_job[worker.job] = worker
            elif "idle" in found.head:
                self._give_work(worker)
            elif "initializer" in found.head:
                initializer_failed(self, found)
            else:
                worker.calls += 1
                self._vain = 0
                self._finish(number, worker.job, found)
        return True

    def _hear_out(self) -> None:
        """Reads all messages so far, also of workers that are new here: a short worker's end may be reported first."""
        is_told = True
        while is_told:
            is_told = False
            for key, _ in self._selector.select(0):
                if key.fileobj is self._listening:
                    self._accept()
                    is_told = True
                elif key.data is not None:
                    is_told = self._read(key.data) or is_told

    def _wake_idle(self) -> None:
        """A submit() that was interrupted may have appended a call that has no future."""
        assert self._queue is not None
        with self._lock:
            if self._idle and self._queue.free() > 0:
                _say(self._idle.pop(), b"w")

    def _give_work(self, worker: _Worker) -> None:
        assert self._queue is not None
        with self._lock:
            more = self._queue.free() > 0
            if not more:
                self._idle.append(worker)
        if more:
            _say(worker, b"w")

    def _finish(self, number: int, job: int, found: Found) -> None:
        with self._lock:
            future = self._futures.pop(number, None)
            outcome = self._jobs.get(job)
            self._changed.notify_all()
        if future is not None:
            future.finish(found, outcome)

    def _worker_ended(self, outcome: dict[str, Any]) -> None:
        job = outcome["id"]
        self._hear_out()
        worker = self._by_job.pop(job, None)
        assert self._queue is not None
        with self._lock:
            self._jobs.pop(job, None)
            self._idle = [one for one in self._idle if one is not worker]
            lost = [number for number in self._futures if self._queue.owner(number) == job]
            futures = [self._futures.pop(number) for number in lost]
            self._changed.notify_all()
            vain = not lost and outcome["state"] != "done" and (worker is None or worker.calls == 0)
        if outcome["signal"] == _SIGALRM and self._timeout:
            outcome = {**outcome, "state": "timeout", "reason": f"it took longer than {self._timeout:g}s"}
        for future in futures:
            future.fail(outcome)
        self._vain = self._vain + 1 if vain else 0
        if self._vain >= _VAIN:
            why = outcome["reason"] or outcome["state"]
            lines = last_lines(outcome["log"])
            said = f"the last lines of {outcome['log']}:\n{lines}" if lines else f"log: {outcome['log']}"
            self.break_down(f"workers end before they take a call: {why}; {said}")

    def _end_workers(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
            queued = [] if self._told_to_end else [*self._jobs]
            self._told_to_end = True
        for worker in idle:
            _say(worker, b"q")
        if queued:
            try:
                cancel(queued, "--queued")
            except (CommandFailed, OSError):
                pass  # they find nothing to do, and end

    def _on_job(self, outcome: dict[str, Any]) -> None:
        with self._lock:
            if outcome["id"] not in self._jobs:
                if self._early is not None:
                    self._early[outcome["id"]] = outcome
                return
            self._jobs[outcome["id"]] = outcome
            if outcome["state"] in ENDED:
                self._ended.append(outcome)
        self._held.see(outcome, "a worker", self)
        if self._drops_held:
            with self._lock:
                known = [*self._jobs.values()]
            self._drop(known)
        if outcome["state"] in ENDED:
            self._wake()

    def break_down(self, why: str, cause: BaseException | None = None) -> None:
        """Fails every call that has not ended, and accepts no more."""
        with self._lock:
            if self.why_broken is not None:
                return
            self.why_broken = why
            self._cause = cause
            self._closed = True
            futures = [*self._futures.values()]
            self._futures.clear()
            jobs = [*self._jobs]
            self._jobs.clear()  # they end by themselves
            self._changed.notify_all()
        for future in futures:
            if self._queue is not None:
                self._queue.cancel(future.number)
            future.break_down(why, cause)
        try:
            cancel(jobs)
        except (CommandFailed, OSError):
            pass  # why it broke down
        self._wake()

    # What is asked of it.

    def has_started(self, future: Future) -> bool:
        return self._queue is not None and self._queue.owner(future.number) not in (FREE, CANCELLED)

    def job_of(self, future: Future) -> int:
        if not self.has_started(future):
            raise RuntimeError(f"{future!r}: no worker has taken it")
        assert self._queue is not None
        return self._queue.owner(future.number)

    def cancel(self, future: Future) -> bool:
        if future.done() or self._queue is None or not self._queue.cancel(future.number):
            return future.cancelled()
        with self._lock:
            self._futures.pop(future.number, None)
            self._changed.notify_all()
        given_up = future.give_up()
        self._wake()
        return given_up

    def cancel_queued(self) -> None:
        """All calls that no worker has taken."""
        with self._lock:
            futures = [*self._futures.values()]
        for future in futures:
            self.cancel(future)

    def drop_held(self) -> None:
        """Fails all calls if the workers are held, now or later."""
        with self._lock:
            self._drops_held = True
            known = [*self._jobs.values()]
        self._drop(known)

    def _drop(self, known: Sequence[dict[str, Any]]) -> None:
        """Not as long as a worker runs: it takes the calls."""
        states = {outcome.get("state") for outcome in known}
        if states == {"held"}:
            self.break_down(f"its workers are held: {known[0]['reason']}")

    def end_all(self, *words: str) -> None:
        """Ends running calls, too: their futures get a JobFailed."""
        self.cancel_queued()
        with self._lock:
            jobs = [*self._jobs]
        cancel(jobs, *words)

    # The end.

    def close(self) -> None:
        """Accepts no more calls."""
        with self._lock:
            self._closed = True
        if self._thread is not None:
            self._wake()

    def leave(self) -> int:
        """Lets the calls continue without this process; returns how many have not ended."""
        self.close()
        running.discard(self)
        with self._lock:
            while self._futures and not self._jobs:
                self._changed.wait()  # until there are workers
            return len(self._futures)

    def join(self) -> None:
        """Waits until all calls have ended.  REQUIRES: closed.  A callback does not wait: it runs in a thread
        that this waits for."""
        link, thread = self._link, self._thread
        if link is None or thread is None or link.is_here() or thread is threading.current_thread():
            return
        thread.join()
        link.join()


def _say(worker: _Worker, word: bytes) -> None:
    try:
        worker.connection.send(word)
    except OSError:
        pass  # it has ended, of which we learn
