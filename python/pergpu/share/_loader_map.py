"""Runs a Python function on a loader's batches, in separate processes.

Each worker has two channels, batches out and results back.  Batches go to the workers in turn, and each worker
keeps the order, so the results come in the loader's order.  Each batch has a ticket, which identifies results
that are no longer needed.  After any exception, including a death and Ctrl-C, batches in transit are dropped
(`torn`): the loader returns to its position and sends them again.
"""

from __future__ import annotations

import array
import hashlib
import inspect
import itertools
import os
import pickle
import sys
import threading
import weakref
from collections import deque
from functools import partial
from typing import Any, Callable, NamedTuple, NoReturn

from .. import _share
from .._share import Array
from . import _sent
from ._map_worker import Died, Given, Worker
from ._peers import PeerDied, name_of

_AT_A_WORKER = 2  # batches: one that it works at, and one that waits

reading_main = False
"""Whether this process is a worker that reads its parent's script to find the function there."""


class Result(NamedTuple):
    parts: list[Array]
    shaped: Callable[[list[Any]], Any]
    epoch: int
    number: int


Parts = list[tuple[Any, str, tuple[int, ...]]]  # name, dtype, shape
Gathered = tuple[list[Array], int, int]  # a batch, its epoch and number
Gather = Callable[["float | None"], "Gathered | None"]


class Map:
    """The function and its workers, which start with the first requested batch."""

    def __init__(self, function: Any, workers: int, seed: int, names: list[Any], kind: str, batch: Parts, pinned: bool) -> None:
        if reading_main:
            raise RuntimeError(
                "a worker reads this script to find map's function in it, and reached the loader: put the script's "
                'own work under `if __name__ == "__main__":`'
            )
        self._given = Given(_begin_of(function, names, kind), _share.size_of_spec(_with_head(batch)), pinned)
        self._count, self._seed = workers, seed
        self._tickets = itertools.count(1)
        self._turn = 0
        self._set_up()

    def _set_up(self) -> None:
        self.torn = False
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a wait that asyncio has given up is still going on in its thread
        self._workers: list[Worker] = []
        self._under_way: deque[tuple[Worker, int, int, int]] = deque()  # … ticket, epoch, number
        self._ready: Result | None = None
        self._finalizer = weakref.finalize(self, _end, self._workers, self._pid)

    def take(self, gather: Gather) -> Result:
        """The next result.  Raises the function's exception; PeerDied: its worker died, and another one is ready for
        the next call."""
        self._after_fork()
        with self._lock:
            while not self._fetch(gather, None):
                pass
            result, self._ready = self._ready, None
            assert result is not None
            return result

    def waiting(self, gather: Gather) -> Callable[[float | None], bool]:
        """Returns whether take() would not wait; waits for that (None), or not (0)."""

        def wait(seconds: float | None) -> bool:
            self._after_fork()
            with self._lock:
                return self._fetch(gather, seconds)

        return wait

    def seek(self, native: Callable[[], None]) -> None:
        """The next result comes from batches that are gathered from now on."""
        self._after_fork()
        with self._lock:
            native()
            self._under_way.clear()
            self._ready = None
            self.torn = False

    def close(self) -> None:
        if self._pid != os.getpid():
            return
        for worker in self._workers:
            worker.closing = True  # who waits in another thread gives up
        with self._lock:
            self._under_way.clear()
            self._ready = None
            self._finalizer()

    def _after_fork(self) -> None:
        if self._pid == os.getpid():
            return
        self._finalizer.detach()
        for worker in self._workers:
            worker.disown()
        self._set_up()

    def _fetch(self, gather: Gather, seconds: float | None) -> bool:
        """Waits for a result; returns whether there is one."""
        if self._ready is not None:
            return True
        try:
            self._send(gather, seconds)
            if not self._under_way:
                return False
            worker, ticket, epoch, number = self._under_way[0]
            try:
                came = worker.result(ticket, seconds)
            except Died as died:
                self._replace(worker)
                _tell(died, epoch, number)
            if came is None:
                return False
            if came.error is not None:
                if came.is_over:
                    self._replace(worker)
                raise _raised(came.error, worker.pid, epoch, number)
            self._under_way.popleft()
            self._ready = Result(came.parts, came.shaped, epoch, number)
            self._send(gather, 0)  # it works while the caller does
            return True
        except BaseException:
            self.torn = True
            raise

    def _send(self, gather: Gather, seconds: float | None) -> None:
        """Sends until each worker has two batches; waits only if a worker would have none."""
        while len(self._workers) < self._count:
            self._workers.append(Worker(self._given))
        while len(self._under_way) < self._count * _AT_A_WORKER:
            worker = self._workers[self._turn % self._count]
            try:
                if not worker.has_room(_AT_A_WORKER, seconds):  # with what nobody wants any more
                    return
                if not self._is_alive(worker):
                    return
                gathered = gather(seconds if len(self._under_way) < self._count else 0)
                if gathered is None:
                    return
                parts, epoch, number = gathered
                ticket = next(self._tickets)
                head = array.array("q", [ticket, epoch, number, seed_of(self._seed, epoch, number)])
                self._under_way.append((worker, ticket, epoch, number))
                worker.send(ticket, (head, *parts))
            except Died:
                if any(one is worker for one, *_ in self._under_way):
                    return  # what it has done still comes, and then its death
                self._replace(worker)
                continue
            self._turn += 1

    def _is_alive(self, worker: Worker) -> bool:
        """Replaces a dead worker that had no batch; False: it had one."""
        if worker.is_alive():
            return True
        if any(one is worker for one, *_ in self._under_way):
            return False
        raise Died(worker.pid, None, None)

    def _replace(self, worker: Worker) -> None:
        at = self._workers.index(worker)
        worker.end()
        self._workers[at] = Worker(self._given)


def seed_of(seed: int, epoch: int, number: int) -> int:
    """The function's seed for a batch: 32 bits, because every generator accepts that many."""
    return int.from_bytes(hashlib.blake2b(b"%d %d %d" % (seed, epoch, number), digest_size=4).digest(), "little")


def _with_head(parts: Parts) -> _share._Spec:
    return "tuple", [("", "int64", (4,)), *(("", dtype, shape) for _, dtype, shape in parts)]


def _end(workers: list[Worker], pid: int) -> None:
    if os.getpid() != pid:
        return
    for worker in workers:
        worker.close()
    for worker in workers:
        worker.end()
    workers.clear()


def _begin_of(function: Any, names: list[Any], kind: str) -> bytes:
    """The first message to a worker.  TypeError: it could not find the function."""
    if not callable(function):
        raise TypeError(f"map is {function!r}; expected a function")
    try:
        pickled = _sent.dumps(function)
    except Exception as error:
        raise TypeError(
            f"map is {function!r}, which other processes cannot find by its name ({error}): define it at the top level of a "
            "module or script; pass other values with functools.partial, or as attributes of an object that is "
            "called"
        ) from error
    main = _main() if b"__main__" in pickled or b"__mp_main__" in pickled else {}  # its name in a child of multiprocessing
    path = [os.getcwd() if not entry else entry for entry in sys.path]
    return pickle.dumps(
        {
            "main": {**main, "sys_path": path, "sys_argv": sys.argv},
            "function": pickled,
            "takes_seed": _takes_seed(function),
            "names": names,
            "kind": kind,
        }
    )


def _main() -> dict[str, str]:
    """How multiprocessing loads a script in another process, as a module of another name."""
    main = sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name is not None:
        return {"init_main_from_name": name}
    path = getattr(main, "__file__", None)
    if path is None or not os.path.isfile(path):
        raise TypeError(
            "map is a function of an interactive session or of `python -c`, which other processes cannot read: put it into a "
            "separate file, and import it"
        )
    return {"init_main_from_path": os.path.abspath(path)}


def _takes_seed(function: Any) -> bool:
    if isinstance(function, partial) and "seed" in function.keywords:
        return False  # it has one
    try:
        return "seed" in inspect.signature(function).parameters
    except ValueError:  # of some that are written in C
        return False


def _tell(died: Died, epoch: int, number: int) -> NoReturn:
    how = f"died by {name_of(died.signal)}" if died.signal else f"ended with status {died.status}"
    words = f"the worker of map, process {died.pid}, {how} at batch {number} of epoch {epoch}; another worker gets this batch next"
    raise PeerDied(words, died.pid, died.signal) from None


def _raised(told: tuple[bytes | None, str, str], pid: int, epoch: int, number: int) -> BaseException:
    from .._future import RemoteError, RemoteTraceback, caused_by

    pickled, words, text = told
    error: BaseException = RemoteError(words) if pickled is None else pickle.loads(pickled)
    return caused_by(error, RemoteTraceback(f"map, at batch {number} of epoch {epoch}, in process {pid}:\n{text}"))
