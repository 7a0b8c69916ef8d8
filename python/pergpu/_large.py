"""Large buffers of arguments: equal ones of many calls lie in one file."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Sequence

from . import _payload

LARGE = 1 << 20  # bytes: smaller ones lie in the file of their call
_PIECE = 4 << 20
_SAMPLES = 16


class Large:
    """Of one executor: what it has written, and where."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, int, bytes], list[str]] = {}
        self._next = 0
        self._unsynced: list[str] = []

    def placed(self, folder: str, buffers: Sequence[memoryview]) -> list[memoryview | _payload.Beside]:
        """The same, with large ones in files of `folder`.  OSError: one can't be written."""
        return [self._placed(folder, buffer) if len(buffer) >= LARGE else buffer for buffer in buffers]

    def sync(self) -> None:
        """What was written stays when the power fails."""
        with self._lock:
            paths, self._unsynced = self._unsynced, []
        for path in paths:
            with open(path, "rb") as file:
                os.fsync(file.fileno())

    def _placed(self, folder: str, buffer: memoryview) -> _payload.Beside:
        key = folder, len(buffer), _sample(buffer)
        with self._lock:
            names = self._known.setdefault(key, [])
            for name in names:
                if _is_in(f"{folder}/{name}", buffer):
                    return _payload.Beside(name, len(buffer))
            name = self._written(folder, buffer)
            names.append(name)
            return _payload.Beside(name, len(buffer))

    def _written(self, folder: str, buffer: memoryview) -> str:
        while True:
            name = f"large-{os.getpid()}-{self._next}"
            self._next += 1
            path = f"{folder}/{name}"
            try:
                with open(path, "xb", buffering=0, opener=_payload._open_new) as file:
                    view = buffer
                    while view:
                        view = view[file.write(view) :]
            except FileExistsError:
                continue
            except BaseException:
                os.unlink(path)
                raise
            self._unsynced.append(path)
            return name


def _sample(buffer: memoryview) -> bytes:
    """Of what differs this mostly does, too."""
    step = len(buffer) // _SAMPLES
    digest = hashlib.blake2b(digest_size=16)
    for i in range(_SAMPLES):
        digest.update(buffer[i * step : i * step + 1024])
    digest.update(buffer[-1024:])
    return digest.digest()


def _is_in(path: str, buffer: memoryview) -> bool:
    try:
        with open(path, "rb", buffering=0) as file:
            for begin in range(0, len(buffer), _PIECE):
                piece = buffer[begin : begin + _PIECE]
                found = file.read(len(piece))
                if found != bytes(piece):
                    return False
            return True
    except OSError:
        return False
