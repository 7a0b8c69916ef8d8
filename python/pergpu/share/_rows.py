"""Converts data with rows to Arrays, without a copy."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Callable

from .._share import Array
from ._content import refuse_masked
from ._formats import SIZES
from ._list import SharedList


def fields_of(data: Any) -> tuple[dict[Any, Array], Callable[[list[Any]], Any]]:
    """The arrays of `data` by their names, and a function that builds the same structure from one object for each:
    a dict, a tuple, or a single array."""
    if isinstance(data, Mapping):
        names = list(data)
        return {name: array_of(repr(name), data[name]) for name in names}, lambda parts: dict(zip(names, parts))
    if isinstance(data, (tuple, list)):
        return {at: array_of(f"number {at}", one) for at, one in enumerate(data)}, tuple
    return {None: array_of("the data", data)}, lambda parts: parts[0]


def array_of(name: str, value: Any) -> Array:
    """TypeError: it has no rows of numbers.  ValueError: its rows are not contiguous."""
    if isinstance(value, SharedList):
        raise TypeError(f"{name} is a list of Python objects; a loader needs arrays of numbers")
    made = value if isinstance(value, Array) else None
    for of_kind in (_of_tensor, _of_numpy, _of_buffer):
        made = of_kind(name, value) if made is None else made
    if made is None:
        raise TypeError(f"{name} is {type(value).__name__}; expected an array, with a row for each example")
    if not made.shape:
        raise ValueError(f"{name} has no dimensions; expected an array, with a row for each example")
    return made


def _of_tensor(name: str, value: Any) -> Array | None:
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    if value.device.type != "cpu":
        raise TypeError(f"{name} is on {value.device}; a loader needs rows in CPU memory")
    if value.is_conj() or value.is_neg():  # its memory has other values
        raise _scattered(name, "resolve_conj().resolve_neg()")
    if not value.is_contiguous():
        raise _scattered(name, "contiguous()")
    dtype = str(value.dtype).rpartition(".")[2]
    _check(name, dtype)
    tensor = value.detach()
    flat = tensor.reshape(-1).view(torch.uint8).numpy() if tensor.numel() else b""
    return Array(flat, 0, tuple(tensor.shape), dtype)


def _of_numpy(name: str, value: Any) -> Array | None:
    if not hasattr(value, "__array_interface__") and not (hasattr(value, "__dlpack__") and hasattr(value, "__array__")):
        return None
    import numpy

    refuse_masked(value)
    array = numpy.asarray(value)
    if array.dtype.hasobject or array.dtype.byteorder not in "=|<":
        raise TypeError(f"{name} has dtype {array.dtype}; expected numbers in this machine's byte order")
    _check(name, array.dtype.name)
    if not array.flags.c_contiguous:
        raise _scattered(name, "copy()")
    flat: Any = array.reshape(-1).view("uint8") if array.size else b""
    return Array(flat, 0, array.shape, array.dtype.name)


def _of_buffer(name: str, value: Any) -> Array | None:
    try:
        buffer = memoryview(value)
    except TypeError:
        return None
    names = {"b": "int", "h": "int", "i": "int", "l": "int", "q": "int", "f": "float", "d": "float"}
    kind = names.get(buffer.format.lower())
    if kind is None or not buffer.c_contiguous:
        return None
    unsigned = "u" if kind == "int" and buffer.format.isupper() else ""
    return Array(buffer, 0, buffer.shape or (), f"{unsigned}{kind}{8 * buffer.itemsize}")


def _check(name: str, dtype: str) -> None:
    if dtype not in SIZES:
        raise TypeError(f"{name} has dtype {dtype}; expected one of {', '.join(SIZES)}")


def _scattered(name: str, way_out: str) -> ValueError:
    return ValueError(f"the rows of {name} are not contiguous: pass .{way_out}, or a share.dataset")
