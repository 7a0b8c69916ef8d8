"""The large arrays of a joblib loop, each in one file, however many tasks use it.

A grid search passes the same data to hundreds of tasks.  Each task has its own file of arguments, which
would hold the data again.  So an array of at least max_nbytes is written once.  Jobs map it with mmap_mode,
as joblib promises for all its backends: "r", read-only, unless you ask for another mode.  A file is removed
when its array is gone and no task is left that uses it.  An array that is already mapped from a file is
passed as the place in its file: tasks that write to it write to that file.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import weakref
from typing import Any

from . import _payload, _private
from ._calls_folder import CallsFolder
from ._pickling import Pickled, _Pickler, dump_by


class Arrays:
    """For one loop.  `folder`: where the files go.  max_nbytes or mode is None: arrays are pickled with the tasks."""

    def __init__(self, folder: str, calls: CallsFolder | None, max_nbytes: int | None, mode: str | None) -> None:
        self._folder = os.fspath(folder)
        self._calls = calls  # in which that folder is; None: it was chosen by the program
        self._max_nbytes = max_nbytes
        self._mode = mode
        self._lock = threading.RLock()  # an array may be collected at any moment
        self._written: dict[int, _File] = {}  # by id(), which is an array's as long as it lives

    def dump(self, what: Any, used: set[_File]) -> Pickled:
        """Like _pickling.dump(), but for the arrays: their files are in `used`, to be released."""
        return dump_by(lambda file, buffers, around: _ArrayPickler(self, used, file, buffers, False, around), what)

    def reduce(self, array: Any, used: set[_File]) -> Any:
        """How an array is pickled; NotImplemented: as usual."""
        mapped = _mapped(array)
        if mapped is not None:
            return _view, _place(array, mapped)
        if self._max_nbytes is None or self._mode is None or array.nbytes < self._max_nbytes:
            return NotImplemented
        if type(array).__module__ != "numpy" or type(array).__name__ != "ndarray" or array.dtype.hasobject:
            return NotImplemented
        with self._lock:
            file = self._written.get(id(array))
            if file is None:
                file = self._written[id(array)] = _File(self._write(array))
                weakref.finalize(array, self._forget, id(array)).atexit = False
            if file not in used:
                file.users += 1
                used.add(file)
        return _load, (file.path, self._mode)

    def release(self, used: set[_File]) -> None:
        """Call this when the tasks have ended."""
        with self._lock:
            for file in used:
                file.users -= 1
                if file.users == 0 and file.unwanted:
                    _remove(file.path)
            used.clear()

    def _forget(self, number: int) -> None:
        with self._lock:
            file = self._written.pop(number, None)
            if file is not None:
                file.unwanted = True
                if file.users == 0:
                    _remove(file.path)

    def _write(self, array: Any) -> str:
        import numpy

        if self._calls is not None:
            self._calls.made()
        path = f"{self._folder}/{os.getpid()}-{os.urandom(8).hex()}.npy"
        at = _private.open_folder(self._folder, 0o777 if self._calls is None else 0o700)
        try:
            fd = _private.open_in(at, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        finally:
            os.close(at)
        with open(fd, "wb") as file:
            numpy.save(file, array, allow_pickle=False)
        return path

    def remove(self) -> None:
        """Call this when the loop has ended."""
        with self._lock:
            for number in [*self._written]:
                self._written[number].users = 0
                self._forget(number)
        try:
            above = _private.open_folder(os.path.dirname(self._folder))
            try:
                os.rmdir(os.path.basename(self._folder), dir_fd=above)
            finally:
                os.close(above)
        except OSError:
            pass  # another loop's are there, or there were none


class _File:
    def __init__(self, path: str) -> None:
        self.path = path
        self.users = 0  # batches that have not ended
        self.unwanted = False


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        _private.remove(path)


class _ArrayPickler(_Pickler):
    def __init__(self, arrays: Arrays, used: set[_File], *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._arrays = arrays
        self._used = used

    def reducer_override(self, obj: Any) -> Any:
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(obj, numpy.ndarray):
            reduced = self._arrays.reduce(obj, self._used)
            if reduced is not NotImplemented:
                return reduced
        return super().reducer_override(obj)


def _load(path: str, mode: Any) -> Any:
    import numpy

    with _payload.open_ours(path) as file:
        mapped = numpy.load(f"/proc/self/fd/{file.fileno()}", mmap_mode=mode)
    mapped.filename = path  # by which others are told of it
    return numpy.asarray(mapped)


# Arrays that are mapped from a file: numpy.memmap, and views of one.


def _mapped(array: Any) -> Any:
    """The numpy.memmap that contains the array; None: there is none, or its file has no name."""
    import mmap

    import numpy

    while array is not None:
        if isinstance(array, numpy.memmap) and isinstance(array.base, mmap.mmap):
            return array if array.filename is not None and array.mode != "c" else None
        array = getattr(array, "base", None)
    return None


def _place(array: Any, mapped: Any) -> tuple[Any, ...]:
    """The arguments from which _view() makes the same array."""
    steps = [(length - 1) * stride for length, stride in zip(array.shape, array.strides)]
    if array.size == 0:
        steps = [0 for _ in steps]
    before = -sum(step for step in steps if step < 0)  # bytes that lie before the first item
    size = before + sum(step for step in steps if step > 0) + array.itemsize
    begin = mapped.offset + array.ctypes.data - mapped.ctypes.data - before
    mode = "r+" if mapped.mode == "w+" else mapped.mode
    return os.fspath(mapped.filename), mode, begin, size, before, array.dtype, array.shape, array.strides


def _view(path: str, mode: Any, begin: int, size: int, before: int, dtype: Any, shape: Any, strides: Any) -> Any:
    import numpy

    mapped = numpy.memmap(path, numpy.uint8, mode, begin, (size,))
    return numpy.ndarray(shape, dtype, mapped, before, strides)
