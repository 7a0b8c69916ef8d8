"""How processes of a user find memory that has no name.

Jobs find it through the coordinator (_visit.py), which can hold it longer than any process does.  Below that,
and without a coordinator, processes find it themselves.  Each key has a small file in a folder of the user.
The process that holds the file's lock makes the memory.  The file's content is a hint, "pid fd", where the
memory was last seen; /proc/PID/fd/FD opens it.  If the hint is outdated, the open files of the user's other
processes are searched.  When a process dies, its lock and its memory are released, and only the small file
stays, which has no effect.

A process that the coordinator asks to make the memory still does so under that lock: a process that came before
the coordinator, or that never uses one, may be making it already.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager


from .._holder import hold
from .._share import Memory
from ._visit import Scope, Visit, Wish

_LONGEST_TITLE = 1000
_locks: set[int] = set()  # descriptors of files that are locked, or will be
_UNTIL_THERE_IS_ANOTHER_S = 3.0


def meet(
    kind: str,
    key: str,
    is_it: Callable[[Memory], bool],
    make: Callable[[str], Memory],
    *,
    scope: Scope | None = None,
    keep: bool = False,
    title: str | None = None,
) -> Memory:
    """Returns the memory of `key` that processes of this user have, or the result of make().

    `kind` names the type of keys (lower-case letters): keys of two kinds are never the same.  `make` gets the
    name for its memory.  While it is called, no other process of this key is in here, and if its process dies,
    another process's `make` is called.  `is_it` checks the found memory: a hash can collide, and other programs
    can make memory of any name.

    `scope`: None, the memory is freed as soon as no process has it open or mapped; "user", in a job the
    coordinator holds it while a process lives that asked for it; "sweep", the coordinator holds it until no job
    of this sweep can run any more, and the executor of this call holds it while open.  `keep`: held until it is
    dropped (`pergpu share drop TITLE`), or the coordinator ends.  `title`: the key's readable name.  scoped()
    makes keys that other sweeps do not have.

    ValueError: "sweep" outside of jobs, or `keep` without any coordinator.  A RuntimeWarning if the coordinator
    can't hold it now: the memory exists, and ends with the last process that has it.
    """
    if scope is None and not keep:
        return _among_ourselves(_Meeting(kind, key), is_it, make)
    if keep and not os.environ.get("PERGPU_SHARE"):
        raise ValueError("keep=True needs a coordinator to hold the data, so it works only in jobs of pergpu (PERGPU_SHARE is not set)")
    if scope == "sweep" and "PERGPU_JOB" not in os.environ:
        raise ValueError('scope="sweep" works only in jobs of pergpu (PERGPU_JOB is not set)')
    scope = scope or "user"
    meeting = _Meeting(kind, key)
    memory = _met(meeting, Wish(meeting.name, (title or key)[:_LONGEST_TITLE], scope, keep), is_it, make)
    if scope == "sweep":
        hold(meeting.name, memory.fileno())
    return memory


def _met(meeting: _Meeting, wish: Wish, is_it: Callable[[Memory], bool], make: Callable[[str], Memory]) -> Memory:
    with Visit(wish) as visit:
        memory = visit.find(lambda fd: _adopted(fd, is_it))
        if memory is not None:
            return memory
        memory = _among_ourselves(meeting, is_it, make)
        if visit.leave(memory):
            return memory
    # A coordinator that was killed has a successor in a moment.
    end = time.monotonic() + (_UNTIL_THERE_IS_ANOTHER_S if wish.lasts else 0)
    while True:
        with Visit(wish) as visit:
            found = visit.find(lambda fd: _adopted(fd, is_it))
            if found is not None:
                memory.close()
                return found
            if visit.leave(memory):
                return memory
        if not visit.was_left or time.monotonic() > end:
            break
        time.sleep(0.05)
    if wish.lasts:
        why = f"{wish.title!r} is freed when its last process ends, since the coordinator can't hold it: {visit.why_not}"
        warnings.warn(why, RuntimeWarning, stacklevel=frames_of_ours())
    return memory


def name_of(kind: str, key: str) -> str:
    """The identity of memory for the coordinator and executors."""
    return f"{kind}-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def frames_of_ours() -> int:
    """The stack level for warn(): the first frame outside this package."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("pergpu."):
        depth, frame = depth + 1, frame.f_back
    return depth


def scoped(name: str, scope: Scope) -> str:
    """A key for this name: with "sweep", in a job, a key that other sweeps do not have, which differ by name,
    folder and coordinator home; else a key of this user on this machine.

    ValueError: there is no such scope.
    """
    if scope not in ("sweep", "user"):
        raise ValueError(f'scope is {scope!r}; expected "sweep" or "user"')
    sweep = os.environ.get("PERGPU_SWEEP")
    if scope == "user" or not sweep:
        return f"user\n{name}"
    home = os.path.dirname(os.environ.get("PERGPU_ATTEMPT_ID", ""))
    run = os.path.dirname(os.environ.get("PERGPU_OUT", ""))
    return "\n".join(["sweep", home, os.path.dirname(run), sweep, name])


def held_for_sweep() -> Scope | None:
    """The scope of memory that lives as long as a sweep, if something can hold it."""
    return "sweep" if os.environ.get("PERGPU_SHARE") and "PERGPU_JOB" in os.environ else None


def _among_ourselves(meeting: _Meeting, is_it: Callable[[Memory], bool], make: Callable[[str], Memory]) -> Memory:
    memory = _adopted(meeting.hinted(), is_it)
    if memory is None:
        with meeting.alone():
            memory = _adopted(meeting.hinted(), is_it)
            for fd in () if memory else meeting.looked_for():
                memory = _adopted(fd, is_it)
                if memory:
                    break
            memory = memory or make(meeting.name)
            meeting.leave_hint(memory.fileno())
    return memory


def _adopted(fd: int | None, is_it: Callable[[Memory], bool]) -> Memory | None:
    if fd is None:
        return None
    try:
        memory = Memory.adopt(fd)
    except (OSError, ValueError):
        os.close(fd)
        return None
    try:
        if is_it(memory):
            return memory
    except (OSError, ValueError):
        pass
    memory.close()
    return None


class _Meeting:
    """The files and the lock of one key."""

    def __init__(self, kind: str, key: str) -> None:
        self.name = name_of(kind, key)
        self._path = os.path.join(_folder(), self.name)
        self._link = f"/memfd:pergpu:{self.name} (deleted)"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Excludes other processes of this key; waits for the current holder.  If a holder dies, its lock is released."""
        while True:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                _locks.add(fd)
                fcntl.flock(fd, fcntl.LOCK_EX)  # Ctrl-C gets through
                if not _is_same(fd, self._path):
                    continue  # the file was removed meanwhile
                yield
                return
            finally:
                _locks.discard(fd)
                os.close(fd)

    def leave_hint(self, fd: int) -> None:
        """Publishes the memory's place."""
        with open(self._path, "r+") as file:
            file.write(f"{os.getpid()} {fd}".ljust(40))

    def hinted(self) -> int | None:
        """A descriptor of the memory, if the hint is still right."""
        try:
            with open(self._path) as file:
                pid, fd = (int(word) for word in file.read().split())
        except (OSError, ValueError):
            return None
        return self._open(f"/proc/{pid}/fd/{fd}")

    def looked_for(self) -> Iterator[int]:
        """The same, in all processes of this user."""
        own = os.getuid()
        for pid in os.listdir("/proc"):
            try:
                if not pid.isdigit() or os.stat(f"/proc/{pid}").st_uid != own:
                    continue
                numbers = os.listdir(f"/proc/{pid}/fd")
            except OSError:
                continue
            for number in numbers:
                fd = self._open(f"/proc/{pid}/fd/{number}")
                if fd is not None:
                    yield fd

    def _open(self, place: str) -> int | None:
        try:
            if os.readlink(place) != self._link:
                return None
            return os.open(place, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None


def _forked() -> None:
    """A child that inherits the descriptor holds the lock, too; a child that lives on would keep it."""
    for fd in _locks:
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(nothing, fd, inheritable=False)
        os.close(nothing)


os.register_at_fork(after_in_child=_forked)


def _folder() -> str:
    """A folder that only this user can access."""
    parent = os.environ.get("XDG_RUNTIME_DIR") or "/tmp"
    folder = os.path.join(parent, f"pergpu-share-{os.getuid()}")
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(f"{folder} belongs to another user, or others may write in it: remove it, or set XDG_RUNTIME_DIR")
    return folder


def _is_same(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False
