"""Writes .safetensors files, which _formats.py reads: a head in JSON, then the bytes of the arrays.

Arrays with large elements come first, so that each begins at a multiple of its element's size and can be
mapped; a head is padded with spaces to a multiple of 8 bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
from collections.abc import Mapping
from typing import NamedTuple

from ._formats import _OF_SAFETENSORS, SIZES

_NAMES = {ours: theirs for theirs, ours in _OF_SAFETENSORS.items()}


class Stored(NamedTuple):
    dtype: str
    shape: tuple[int, ...]
    data: memoryview
    """Flat, of bytes."""


def write(path: str | os.PathLike[str], arrays: Mapping[str, Stored], metadata: Mapping[str, str]) -> None:
    """Writes atomically: no process sees a partial file under this name, even after a power cut.

    ValueError: the format has no such dtype.  OSError: it can't be written.
    """
    head: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    ordered = sorted(arrays.items(), key=lambda item: -SIZES[item[1].dtype])
    end = 0
    for name, one in ordered:
        if one.dtype not in _NAMES:
            raise ValueError(f"{name}: .safetensors has no {one.dtype}; it has {', '.join(_NAMES)}")
        head[name] = {"dtype": _NAMES[one.dtype], "shape": one.shape, "data_offsets": [end, end + len(one.data)]}
        end += len(one.data)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    target = os.fspath(path)
    new = f"{target}.{os.getpid()}.new"
    try:
        with open(new, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for _, one in ordered:
                file.write(one.data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        raise
    folder = os.open(os.path.dirname(target) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
