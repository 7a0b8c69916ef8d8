"""Arrays that are sent to another process: as arguments of a call, of a Pool, of a DataLoader's workers.

An array in a dataset's memory, or in a mapped file, goes as a reference: the other process maps the same memory.
The place of an array is read from /proc/self/maps, so no records are needed.  Any other array goes as a copy.  So
does every array in any other pickle, such as a result or a file, since the memory may be gone when it is read.
"""

from __future__ import annotations

import copyreg
import ctypes
import io
import os
import pickle
import re
import sys
from collections import ChainMap
from typing import Any, Callable, NamedTuple, SupportsIndex, cast

from .. import _share
from .._share import Array
from . import _content
from ._dataset import View, _flat, _mapped, _seen
from ._formats import Stored
from ._meeting import meet

Reduced = tuple[Callable[..., Any], tuple[Any, ...]]

_OF_DATA = re.compile(r"/memfd:pergpu:data-[0-9a-f]{32} \(deleted\)\Z")


class _Mapping(NamedTuple):
    begin: int
    end: int
    view: View
    offset: int
    path: str


def by_reference(array: Array) -> Reduced:
    """How it's pickled for a process that reads it at once."""
    address = array.__array_interface__["data"][0]
    found = _mapping_of(address, array.nbytes) if array.nbytes else None
    if found is not None:
        at = found.offset + address - found.begin
        if _OF_DATA.match(found.path):
            size = found.end - found.begin
            head = _content.head_of(memoryview((ctypes.c_char * size).from_address(found.begin)).cast("B"))
            return _of_dataset, (head["key"], found.view, at, array.shape, array.dtype)
        if found.path.startswith("/") and os.path.isfile(found.path):
            return _of_file, (found.path, _version(found.path), found.view, at, array.shape, array.dtype)
    return _as_copy(array)


def dumps(what: Any) -> bytes:
    """Its pickle, for a process that reads it at once."""
    file = io.BytesIO()
    pickler = pickle.Pickler(file)
    others: Any = copyreg.dispatch_table
    pickler.dispatch_table = ChainMap({Array: by_reference}, others)
    pickler.dump(what)
    return file.getvalue()


def _as_copy(array: Array) -> Reduced:
    return _copied, (_Content(array), array.shape, array.dtype)


class _Content:
    """The bytes of an array: outside the pickle, if the pickle allows that."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __reduce_ex__(self, protocol: SupportsIndex) -> Reduced:
        address = self._array.__array_interface__["data"][0]
        if protocol.__index__() < 5:
            return bytes, (ctypes.string_at(address, self._array.nbytes),)
        return memoryview, (pickle.PickleBuffer(cast(Any, self._array)),)


def _mapping_of(address: int, nbytes: int) -> _Mapping | None:
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            places, rights, offset, _device, _inode, *path = line.rstrip("\n").split(None, 5)
            begin, end = (int(place, 16) for place in places.split("-"))
            if not begin <= address or address + nbytes > end:
                continue
            view: View = "shared" if rights[3] == "s" and rights[1] == "w" else "cow" if rights[1] == "w" else "ro"
            return _Mapping(begin, end, view, int(offset, 16), path[0] if path else "")
    return None


def _of_dataset(key: str, view: View, offset: int, shape: tuple[int, ...], dtype: str) -> Array:
    """LookupError: no process has it any more."""
    memory = next((memory for (known, _), memory in _seen.items() if known == key), None)
    if memory is None:
        memory = meet("data", key, lambda found: _holds(found, key), lambda _: _missing(key), scope="user", title=_title(key))
        _seen[key, "user"] = memory
    return Array(memory.map(view), offset, shape, dtype)


def _holds(memory: _share.Memory, key: str) -> bool:
    return bool(_content.head_of(_flat(memory.map("ro")))["key"] == key)


def _missing(key: str) -> _share.Memory:
    raise LookupError(
        f"the shared data {_title(key)!r} is in no process of this machine any more: call share.dataset() in the function, "
        "or keep the data in the process that sends the array"
    )


def _title(key: str) -> str:
    """The name that the user gave it."""
    found = re.search(r"\n(?:writable )?(function|file) (.*)", key)
    if found is None:
        return key
    return found[2] if found[1] == "function" else found[2].rsplit(" ", 4)[0]


def _version(path: str) -> tuple[int, int, int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _of_file(
    path: str, version: tuple[int, int, int, int], view: View, offset: int, shape: tuple[int, ...], dtype: str
) -> Array:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _version(path)[2:] != version[2:]:
            raise LookupError(f"{path} was changed after an array of it was sent")
        return _mapped(fd, Stored("", dtype, shape, offset), view)
    finally:
        os.close(fd)


def _copied(content: bytes | memoryview, shape: tuple[int, ...], dtype: str) -> Array:
    is_ours = isinstance(content, memoryview) and not content.readonly
    return Array(content if is_ours else bytearray(content), 0, shape, dtype)


_LIVE_READERS = ("multiprocessing.reduction", "torch.multiprocessing.queue")


def _register() -> None:
    """With multiprocessing's own pickler, if the program has imported it: nothing is imported for that."""
    reduction: Any = sys.modules.get("multiprocessing.reduction")
    if reduction is not None:
        reduction.ForkingPickler.register(Array, by_reference)


def _reduced(array: Array) -> Reduced:
    """For any other pickler: a copy; by reference only in the first array that multiprocessing sends."""
    _register()
    caller = sys._getframe(1).f_globals.get("__name__")
    return by_reference(array) if caller in _LIVE_READERS else _as_copy(array)


copyreg.pickle(Array, _reduced)
_register()
