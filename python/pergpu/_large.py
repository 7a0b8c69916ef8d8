"""Large buffers of arguments: equal buffers of many calls share one file."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Sequence

from . import _payload, _private

LARGE = 1 << 20  # bytes: smaller ones lie in the file of their call
_PIECE = 4 << 20
_SAMPLES = 16


class Large:
    """The large buffers that one executor has written, and their files."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, int, bytes], list[str]] = {}
        self._next = 0
        self._unsynced: list[tuple[int, str]] = []

    def placed(self, folder: str, at: int, buffers: Sequence[memoryview]) -> list[memoryview | _payload.Beside]:
        """The same, with large ones in files of `folder`.  OSError: one can't be written."""
        return [self._placed(folder, at, buffer) if len(buffer) >= LARGE else buffer for buffer in buffers]

    def sync(self) -> None:
        """Makes written data survive a power failure."""
        with self._lock:
            files, self._unsynced = self._unsynced, []
        for at, name in files:
            sync_in(at, name)

    def _placed(self, folder: str, at: int, buffer: memoryview) -> _payload.Beside:
        key = folder, len(buffer), _sample(buffer)
        with self._lock:
            names = self._known.setdefault(key, [])
            for name in names:
                if _is_in(at, name, buffer):
                    return _payload.Beside(name, len(buffer))
            name = self._written(folder, at, buffer)
            names.append(name)
            return _payload.Beside(name, len(buffer))

    def _written(self, folder: str, at: int, buffer: memoryview) -> str:
        while True:
            name = f"large-{os.getpid()}-{self._next}"
            self._next += 1
            try:
                fd = _private.open_in(at, f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            except FileExistsError:
                continue
            try:
                with open(fd, "wb", buffering=0) as file:
                    view = buffer
                    while view:
                        view = view[file.write(view) :]
            except BaseException:
                os.unlink(name, dir_fd=at)
                raise
            self._unsynced.append((at, name))
            return name


def _sample(buffer: memoryview) -> bytes:
    """A digest of samples: different buffers usually have different ones."""
    step = len(buffer) // _SAMPLES
    digest = hashlib.blake2b(digest_size=16)
    for i in range(_SAMPLES):
        digest.update(buffer[i * step : i * step + 1024])
    digest.update(buffer[-1024:])
    return digest.digest()


def _is_in(at: int, name: str, buffer: memoryview) -> bool:
    try:
        with open(_private.open_regular(at, name, os.O_RDONLY), "rb", buffering=0) as file:
            for begin in range(0, len(buffer), _PIECE):
                piece = buffer[begin : begin + _PIECE]
                found = file.read(len(piece))
                if found != bytes(piece):
                    return False
            return True
    except OSError:
        return False


def sync_in(at: int, name: str) -> None:
    """The file of that name, in the open folder, stays when the power fails."""
    fd = _private.open_in(at, name, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
