"""The calls of warm workers: a folder that all workers and their executor have open.

    head      a payload (_payload.py): the initializer; search path and arguments in its head
    calls     the pickles of the calls, one after the other
    index     a header and an entry for each call: where its pickle is, and which job has taken it
    call-N    a payload: the call N, which has large buffers
    socket    the executor's address, as long as it lives (_workers.py)

All processes map `index`, and change it only under its flock, which the kernel releases when a process dies.
A worker records that it takes a call before it runs the call, so a call never runs twice.
Like _payload.py, this is loaded without the rest of the package.
"""

import fcntl
import mmap
import os
import resource
import struct
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Optional, TypeVar

    Method = TypeVar("Method", bound=Callable[..., Any])

if TYPE_CHECKING or __package__:
    from . import _payload, _private
else:
    import _payload
    import _private

FREE = 0
CANCELLED = (1 << 64) - 1

_HEADER = struct.Struct("<QQ")  # calls that there are; the first one that may be free
_ENTRY = struct.Struct("<QQQ")  # begin and length of its pickle; FREE, CANCELLED, or the job's id
_IN_FILE = (1 << 64) - 1  # as a begin
_FIRST = 4096  # entries at first
_HIGH = 512  # descriptors from here on


def _alone(method: "Method") -> "Method":
    """A lock for threads and processes.  A Python handler may raise at any moment, such as that of Ctrl-C.  It runs
    after the call of a function, or where one of Python begins: no such point lies between taking a lock and the
    statement that releases it."""

    def in_turn(self: "Queue", *args: "Any") -> "Any":
        with self._lock:
            try:
                fcntl.flock(self._index, fcntl.LOCK_EX)
                return method(self, *args)
            finally:
                fcntl.flock(self._index, fcntl.LOCK_UN)

    in_turn.__doc__ = method.__doc__
    return in_turn  # type: ignore[return-value]


class Queue:
    """Threads may share one, forked processes must not.  OSError: a file can't be used.  NotOurs: another user may have
    written it."""

    def __init__(self, folder: str, create: bool = False, at: "Optional[int]" = None) -> None:
        """`at`: the folder, if it's open already (open_private()): it's the queue's from now on."""
        self.folder = folder
        self._lock = threading.Lock()
        self.at = high(_private.open_private(folder) if at is None else at)
        self._open(os.O_CREAT | os.O_EXCL if create else 0)
        if create:
            os.ftruncate(self._index, _HEADER.size + _FIRST * _ENTRY.size)
        self._maps: list[mmap.mmap] = []
        self._map_index()

    def _open(self, more: int = 0) -> None:
        flags = os.O_RDWR | os.O_CLOEXEC | more
        self._index = self._opened("index", flags)
        self._calls = self._opened("calls", flags | os.O_APPEND)

    def _opened(self, name: str, flags: int) -> int:
        path = f"{self.folder}/{name}"
        return high(_payload.open_ours_in(self.at, path, flags))

    def _map_index(self) -> None:
        self._map = mmap.mmap(self._index, 0)
        self._maps.append(self._map)  # one that goes closes a descriptor, whoever has its number by now

    def descriptors(self) -> "list[int]":
        """Of its files."""
        return [self.at, self._index, self._calls]

    def reopen(self, lost: "set[int]") -> None:
        """After a function has closed some.  REQUIRES: no other thread uses it."""
        for fd in self.descriptors():
            if fd not in lost:
                os.close(fd)
        self.at = high(_private.open_private(self.folder))
        self._open()

    @_alone
    def __len__(self) -> int:
        return self._header()[0]

    @_alone
    def append(self, pickled: bytes, buffers: "Sequence[memoryview | _payload.Beside]" = ()) -> int:
        """Appends a call; returns its number."""
        count, first = self._header()
        begin, length = os.lseek(self._calls, 0, os.SEEK_END), len(pickled)  # an append may have been interrupted
        if buffers:
            _payload.write(f"{self.folder}/call-{count}", {}, pickled, buffers, durable=False, at=self.at)
            begin = _IN_FILE
        else:
            written = os.write(self._calls, pickled)
            while written < length:
                written += os.write(self._calls, memoryview(pickled)[written:])
        if _HEADER.size + (count + 1) * _ENTRY.size > len(self._map):
            os.ftruncate(self._index, _HEADER.size + 2 * count * _ENTRY.size)
            self._map_index()
        self._put(count, begin, length, FREE)
        _HEADER.pack_into(self._map, 0, count + 1, first)
        return count

    @_alone
    def take(self, job: int) -> "int | None":
        """Takes the next free call for this job; returns its number."""
        count, first = self._header()
        while first < count:
            begin, length, owner = self._entry(first)
            if owner == FREE:
                self._put(first, begin, length, job)
                _HEADER.pack_into(self._map, 0, count, first + 1)
                return first
            first += 1
        _HEADER.pack_into(self._map, 0, count, first)
        return None

    @_alone
    def cancel(self, number: int) -> bool:
        """False: it is taken."""
        begin, length, owner = self._entry(number)
        if owner == FREE:
            self._put(number, begin, length, CANCELLED)
        return owner in (FREE, CANCELLED)

    def owner(self, number: int) -> int:
        """FREE, CANCELLED or the id of the job that has taken it."""
        return self._entry(number)[2]

    @_alone
    def taken_by(self, job: int) -> "list[int]":
        """The numbers of those that a job has taken, with and without a result."""
        return [number for number in range(self._header()[0]) if self._entry(number)[2] == job]

    @_alone
    def free(self) -> int:
        """The number of calls that no job has taken."""
        count, first = self._header()
        return sum(self._entry(number)[2] == FREE for number in range(first, count))

    def load(self, number: int) -> "Any":
        """A call.  Raises whatever unpickling raises."""
        begin, length, _ = self._entry(number)
        if begin == _IN_FILE:
            return _payload.Payload(f"{self.folder}/call-{number}", self.at).load()
        return _payload.load(os.pread(self._calls, length, begin))

    def sync(self) -> None:
        """Makes appended calls survive a power failure."""
        os.fdatasync(self._calls)
        os.fdatasync(self._index)

    def close(self) -> None:
        """Closes the queue: afterwards only owner() works, for the calls so far."""
        with self._lock:
            os.close(self._index)
            os.close(self._calls)
            os.close(self.at)
            self.at = self._index = self._calls = -1

    def _header(self) -> "tuple[int, int]":
        count, first = _HEADER.unpack_from(self._map, 0)
        return count, first

    def _entry(self, number: int) -> "tuple[int, int, int]":
        at = _HEADER.size + number * _ENTRY.size
        if at + _ENTRY.size > len(self._map):  # another process has made it larger
            self._map_index()
        begin, length, owner = _ENTRY.unpack_from(self._map, at)
        return begin, length, owner

    def _put(self, number: int, begin: int, length: int, owner: int) -> None:
        _ENTRY.pack_into(self._map, _HEADER.size + number * _ENTRY.size, begin, length, owner)


def high(fd: int) -> int:
    """The same file, under a number that the user's function is unlikely to close or get."""
    try:
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        duplicate = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, soft // 2 if 0 < soft < 2 * _HIGH else _HIGH)
    except OSError:
        return fd  # the limit is nearly reached
    os.close(fd)
    return duplicate
