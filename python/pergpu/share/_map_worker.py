"""A worker of a loader's `map`, as the loader's process sees it."""

from __future__ import annotations

import array
import ctypes
import errno
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections import deque
from functools import partial
from typing import Any, Callable, NamedTuple

from .._share import Array, Consumer, Item, Producer
from ._channel import Channel
from ._loader_feed import copy_into
from ._peers import PeerDied

_SLOTS = 4  # of batches: two under way, one that is just given back, and one that the function has kept
_KEPT = 2  # results of a worker that may lie in slots in somebody's hands; of what is kept beyond there are copies
RESULT_SLOTS = 2 + _KEPT
_LEAST = 1 << 16  # bytes of a result's slot
_LOOK = 0.25  # seconds after which one that waits looks whether the worker ever began
_TO_END = 2.0  # seconds that it has to end by itself
_ONE_THREAD = ("OMP", "MKL", "OPENBLAS", "BLIS", "NUMEXPR", "VECLIB")
_START = "import sys; sys.path.insert(0, sys.argv[1]); from pergpu.share._map_program import main; main()"


class Given(NamedTuple):
    """The data that all workers are started with."""

    begin: bytes
    batch_bytes: int
    pinned: bool


class Came(NamedTuple):
    parts: list[Array]
    shaped: Callable[[list[Any]], Any]
    error: tuple[bytes | None, str, str] | None = None
    is_over: bool = False
    """The worker could not start, and ends."""


class Died(Exception):
    """The worker no longer exists."""

    def __init__(self, pid: int, signal: int | None, status: int | None) -> None:
        super().__init__(pid)
        self.pid, self.signal, self.status = pid, signal, status


def _unnamed_file() -> int:
    """In memory; a Python that was built for an old C library can't."""
    if hasattr(os, "memfd_create"):
        try:
            return os.memfd_create("pergpu:map")
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.EPERM):
                raise
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Worker:
    """One process, from its start to end()."""

    def __init__(self, given: Given) -> None:
        self.closing = False
        self._pinned = given.pinned
        self._pending: deque[int] = deque()  # tickets whose results have not come
        self._kept: set[tuple[int, int]] = set()  # parts of results that somebody has, in their slots
        self._out: Producer | None = None
        self._results: Consumer | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._life = -1  # end of a pipe: the kernel kills the worker when nobody has it any more
        _workers.add(self)
        self.pid = 0
        begin = _unnamed_file()
        try:
            with open(begin, "wb", closefd=False) as file:
                file.write(given.begin)
            with Channel(slots=_SLOTS, slot_bytes=given.batch_bytes) as batches:
                with Channel(slots=RESULT_SLOTS, slot_bytes=max(given.batch_bytes, _LEAST)) as results:
                    self._out = batches.producer()
                    self._results = self._consumer_of(results)
                    self._start(begin, batches.fileno(), results.fileno())
        except BaseException:
            self.end()
            raise
        finally:
            os.close(begin)

    def _start(self, *fds: int) -> None:
        flags: list[str] = getattr(subprocess, "_args_from_interpreter_flags")()
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        # Ctrl-C is for the training; the worker ignores it, from its first instruction on.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            watched, self._life = os.pipe()
            fds += (watched,)
            self._process = subprocess.Popen(
                [sys.executable, *flags, "-c", _START, root, *map(str, fds)],
                stdin=subprocess.DEVNULL,
                pass_fds=fds,
                env={**os.environ, **{f"{name}_NUM_THREADS": "1" for name in _ONE_THREAD}},
            )
            self.pid = self._process.pid
        finally:
            if self._life >= 0:
                os.close(watched)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def has_room(self, most: int, seconds: float | None) -> bool:
        """Whether it has fewer batches than that; takes its results that are no longer needed."""
        while len(self._pending) >= most:
            if self._next(seconds) is None:
                return False
        return True

    def send(self, ticket: int, value: tuple[Any, ...]) -> None:
        """Died: it no longer exists."""
        assert self._out is not None
        while True:
            try:
                slot = self._out.slot(value, _LOOK)
                break
            except TimeoutError:
                if not self.is_alive():
                    raise self._died() from None
                self._look()
            except PeerDied:
                raise self._died() from None
        try:
            slot[0] = value[0]
            for at, part in enumerate(value[1:], 1):
                copy_into(slot[at], part)
        except BaseException:
            slot.abandon()
            raise
        slot.publish()
        self._pending.append(ticket)

    def result(self, ticket: int, seconds: float | None) -> Came | None:
        """The result with this ticket; earlier ones are no longer needed.  None: it isn't there yet.
        Died: and all its results were taken."""
        while True:
            came = self._next(seconds)
            if came is None:
                return None
            number, item, head = came
            if number is None:
                return Came([], tuple, pickle.loads(bytes(item[1])), is_over=True)
            if number != ticket:
                continue
            if head[0] == "error":
                return Came([], tuple, pickle.loads(bytes(item[1])))
            return Came(self._parts(ticket, item), _shaping(head[0], head[2]))

    def _next(self, seconds: float | None) -> tuple[int | None, Item, Any] | None:
        """Ticket, item and head of what comes next."""
        while True:
            item = self._get(seconds)
            if item is None:
                return None
            head = pickle.loads(bytes(item[0]))
            if head[0] == "moved":
                del item
                self._move(head[1])
                continue
            ticket: int | None = head[1]
            while ticket is not None and self._pending and self._pending[0] <= ticket:
                self._pending.popleft()
            return ticket, item, head

    def _get(self, seconds: float | None) -> Item | None:
        assert self._results is not None
        while True:
            try:
                return self._results.get(_LOOK if seconds is None else min(_LOOK, seconds))
            except TimeoutError:
                self._look()
                if not self.is_alive():
                    return self._last()
                if seconds is not None:
                    return None
            except (EOFError, PeerDied):
                raise self._died() from None

    def _last(self) -> Item:
        """The last item of a worker that has ended; it may never have become a producer of the channel."""
        assert self._results is not None
        try:
            return self._results.get(0)
        except (TimeoutError, EOFError, PeerDied):
            raise self._died() from None

    def _look(self) -> None:
        if self.closing:
            raise ValueError("the loader was closed")

    def _died(self) -> Died:
        """It has, or is about to: a worker that left its channels is useless."""
        assert self._process is not None
        try:
            status = self._process.wait(_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        return Died(self.pid, -status if status < 0 else None, status)

    def _move(self, fd: int) -> None:
        """Moves to a channel with larger slots, which the worker has made."""
        try:
            own = os.open(f"/proc/{self.pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            if self.is_alive():
                raise
            raise self._died() from None
        try:
            channel = Channel.from_fd(own)
        except BaseException:
            os.close(own)
            raise
        with channel:
            consumer = self._consumer_of(channel)
        assert self._results is not None
        self._results.close()
        self._results, self._kept = consumer, set()

    def _consumer_of(self, results: Channel) -> Consumer:
        try:
            return results.consumer(pinned=self._pinned)
        except RuntimeError as error:
            if not self._pinned:
                raise
            raise OSError(f"pinned: {error}") from error

    def _parts(self, ticket: int, item: Item) -> list[Array]:
        parts: list[Array] = [item[at] for at in range(1, len(item))]
        if len({one for one, _ in self._kept}) >= _KEPT:
            return [_copy_of(part) for part in parts]
        kept = self._kept
        kept.update((ticket, at) for at in range(len(parts)))
        return [Array(part, 0, part.shape, part.dtype, partial(kept.discard, (ticket, at))) for at, part in enumerate(parts)]

    def close(self) -> None:
        """It ends soon, if it is idle; results in use stay valid."""
        for end in (self._out, self._results):
            try:
                if end is not None:
                    end.close()
            except (RuntimeError, OSError):  # another thread is in it
                pass
        if self._pending and self.is_alive():
            assert self._process is not None
            self._process.terminate()

    def end(self) -> None:
        """Call this when the worker should be gone: ends it and waits for it."""
        self.close()
        if self._process is not None:
            try:
                self._process.wait(_TO_END)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self.let_go()

    def disown(self) -> None:
        """Gives up the worker in a forked process: it belongs to the parent."""
        if self._process is not None:
            self._process.returncode = 0

    def let_go(self) -> None:
        """The worker is killed when all processes that have it have called this, or ended."""
        life, self._life = self._life, -1
        if life >= 0:
            os.close(life)


_workers: weakref.WeakSet[Worker] = weakref.WeakSet()


def _forked() -> None:
    """Closes the ends in a child: a child that lives on would keep them."""
    for worker in _workers:
        worker.let_go()


os.register_at_fork(after_in_child=_forked)


def _shaping(kind: str, names: list[Any]) -> Callable[[list[Any]], Any]:
    if kind == "dict":
        return lambda parts: dict(zip(names, parts))
    if kind == "tuple":
        return tuple
    return lambda parts: parts[0]


def _copy_of(part: Array) -> Array:
    """A copy in memory of this process, aligned to 64 bytes as in a slot."""
    memory = bytearray(part.nbytes + 63)
    at = -ctypes.addressof(ctypes.c_char.from_buffer(memory)) % 64
    copy = Array(memory, at, part.shape, part.dtype)
    copy_into(copy, part)
    return copy
