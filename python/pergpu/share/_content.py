"""The content of a data segment: a head that describes it, and arrays.

    bytes 0–7    b"PGSHARE1"
    bytes 8–15   the length of the head, little-endian
    then         the head, JSON: {"key", "tree", "arrays": [[dtype, shape, offset], …]}
    then         the arrays, each at a multiple of ALIGNMENT

"tree" describes the value that is built from the arrays: {"array": 0}, {"dict": {name: tree}}, {"tuple": [tree, …]},
{"arrays": [tree, …]} (a list of arrays), {"list": [ends, bytes]} (a SharedList), {"value": 3} (of
JSON's own types), {"pickle": 2} (anything else, as bytes).
"""

from __future__ import annotations

import json
import math
import pickle
import struct
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ._formats import SIZES
from ._list import SharedList, packed
from ._meeting import frames_of_ours

MAGIC = b"PGSHARE1"
ALIGNMENT = 64
_PIECE = 64 << 20  # bytes that are copied before a signal is seen
_LONGEST_HEAD = 1 << 30
_FEW = 100
_LARGE_PICKLE = 1 << 20  # bytes that each process would have for itself


class NotContent(ValueError):
    """The segment is damaged, or has other content."""


class Piece(NamedTuple):
    """An array on its way into a segment."""

    dtype: str
    shape: tuple[int, ...]
    write: Callable[[memoryview], None]
    """Fills that many bytes."""

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * SIZES[self.dtype]


class Layout:
    """The places of a value's parts: `nbytes` in all."""

    def __init__(self, key: str, value: Any) -> None:
        self._pieces: list[Piece] = []
        tree = self._tree_of(value)
        sizes = [piece.nbytes for piece in self._pieces]
        begin = 0
        while True:  # the head tells the offsets, and they depend on its length
            arrays: list[list[Any]] = []
            at = begin
            for piece, size in zip(self._pieces, sizes):
                at += -at % ALIGNMENT
                arrays.append([piece.dtype, piece.shape, at])
                at += size
            head = json.dumps({"key": key, "tree": tree, "arrays": arrays}).encode()
            if 16 + len(head) <= begin:
                break
            begin = (16 + len(head) + 4095) // 4096 * 4096
        self._head = MAGIC + struct.pack("<Q", len(head)) + head
        self._offsets: list[int] = [array[2] for array in arrays]
        self.nbytes = max(at, 16 + len(head))

    def write(self, memory: memoryview) -> None:
        """`memory`: flat and writable, of `nbytes` or more."""
        begin = len(MAGIC)
        memory[begin : len(self._head)] = self._head[begin:]
        for piece, offset in zip(self._pieces, self._offsets):
            piece.write(memory[offset : offset + piece.nbytes])
        memory[:begin] = MAGIC  # it is whole now: who made it may have died, and left it to a child

    def _tree_of(self, value: Any) -> dict[str, Any]:
        if isinstance(value, Piece):
            return {"array": self._add(value)}
        lost = _type_that_is_lost(value)
        if lost:
            warnings.warn(lost, RuntimeWarning, stacklevel=frames_of_ours())
        if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
            return {"dict": {name: self._tree_of(one) for name, one in value.items()}}
        if type(value) is tuple:
            return {"tuple": [self._tree_of(one) for one in value]}
        if isinstance(value, list) and 0 < len(value) <= _FEW and all(piece_of(one) is not None for one in value):
            return {"arrays": [self._tree_of(one) for one in value]}
        if isinstance(value, list):
            offsets, data = packed(value)
            return {"list": [self._add(_of_buffer(offsets)), self._add(_of_buffer(data))]}
        piece = piece_of(value)
        if piece is not None:
            return {"array": self._add(piece)}
        if value is None or type(value) in (bool, int, float, str):
            return {"value": value}
        pickled = pickle.dumps(value, 5)
        if len(pickled) >= _LARGE_PICKLE:
            warnings.warn(_not_shared(value, len(pickled)), RuntimeWarning, stacklevel=frames_of_ours())
        return {"pickle": self._add(_of_buffer(memoryview(pickled)))}

    def _add(self, piece: Piece) -> int:
        self._pieces.append(piece)
        return len(self._pieces) - 1


def _type_that_is_lost(value: Any) -> str:
    """A warning for a value that comes back as its base type; "": no warning."""
    kind = type(value)
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    plain: tuple[type, ...] = ()
    if isinstance(value, dict):
        plain = dict, OrderedDict
    elif isinstance(value, list):
        plain = (list,)
    elif numpy is not None and isinstance(value, numpy.ndarray) and not isinstance(value, numpy.ma.MaskedArray):
        plain = numpy.ndarray, numpy.memmap
    elif torch is not None and isinstance(value, torch.Tensor):
        plain = torch.Tensor, torch.nn.Parameter
    if not plain or kind in plain or (plain[0] is dict and not all(isinstance(name, str) for name in value)):
        return ""
    if plain[0] not in (dict, list) and piece_of(value) is None:
        return ""
    name = plain[0].__name__ if plain[0] in (dict, list) else "plain array"
    return (
        f"a {kind.__qualname__} is shared as a {name}: its type and its other attributes are lost. Return a {name}, and share the "
        "rest separately, or build it again from the result of share.dataset()"
    )


def _not_shared(value: Any, nbytes: int) -> str:
    kind = type(value)
    name = f"an array of {value.dtype}" if kind.__module__ == "numpy" and hasattr(value, "dtype") else f"a {kind.__qualname__}"
    if isinstance(value, Mapping):
        name = "a dict whose keys are not all strings"
    return (
        f"{name} is shared as a pickle, so each process gets a separate copy of {nbytes >> 20} MiB: only arrays of "
        "numbers, and lists, tuples and dicts (with strings as keys) of them, are shared without copies"
    )


def head_of(memory: memoryview) -> dict[str, Any]:
    """NotContent: there is none."""
    if bytes(memory[:8]) != MAGIC:
        raise NotContent("it does not begin like shared data")
    (length,) = struct.unpack("<Q", memory[8:16])
    if length > min(_LONGEST_HEAD, len(memory) - 16):
        raise NotContent(f"its head would have {length} bytes")
    try:
        head = json.loads(bytes(memory[16 : 16 + length]))
        head["key"], head["tree"], head["arrays"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotContent(f"its head cannot be read: {error}") from None
    return dict(head)


def value_of(head: dict[str, Any], array: Callable[[int, tuple[int, ...], str], Any]) -> Any:
    """Builds the value.  `array`: makes an array from its offset, shape and dtype; ValueError if there is
    none."""

    def made(number: int) -> Any:
        dtype, shape, offset = head["arrays"][number]
        return array(offset, tuple(shape), dtype)

    def built(tree: Any) -> Any:
        ((kind, what),) = tree.items()
        if kind == "array":
            return made(what)
        if kind == "dict":
            return {name: built(one) for name, one in what.items()}
        if kind == "tuple":
            return tuple(built(one) for one in what)
        if kind == "arrays":
            return [built(one) for one in what]
        if kind == "list":
            return SharedList(made(what[0]), made(what[1]))
        if kind == "value":
            return what
        if kind == "pickle":
            return pickle.loads(memoryview(made(what)))
        raise NotContent(f"{kind!r} was made by a newer pergpu")

    try:
        return built(head["tree"])
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise NotContent(f"its head is invalid: {error!r}") from None


def piece_of(value: Any) -> Piece | None:
    """None: it isn't an array.  TypeError: an array that can't be shared with other processes."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _of_tensor(torch, value)
    if hasattr(value, "__array_interface__") or (hasattr(value, "__dlpack__") and hasattr(value, "__array__")):
        return _of_numpy(value)
    try:
        return _of_buffer(memoryview(value))
    except TypeError:
        return None


def _of_tensor(torch: Any, tensor: Any) -> Piece:
    if tensor.device.type != "cpu":
        raise TypeError(f"a tensor on {tensor.device} cannot be shared with other processes: pass `.cpu()`")
    if tensor.layout != torch.strided or getattr(tensor, "is_nested", False):
        kind = "a nested tensor" if tensor.layout == torch.strided else f"a tensor of {tensor.layout}"
        raise TypeError(f"{kind} cannot be shared with other processes: pass `.to_dense()`, or the tensors that it consists of")
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    dtype = str(tensor.dtype).rpartition(".")[2]
    if dtype not in SIZES:
        raise TypeError(f"a tensor of {tensor.dtype} cannot be shared")
    flat = tensor.reshape(-1)
    if flat.numel() and flat.stride(0) != 1:  # of one element: contiguous all the same
        flat = flat.clone(memory_format=torch.contiguous_format)
    flat = flat.view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)
    return Piece(dtype, tuple(tensor.shape), lambda into: _copy(memoryview(flat.numpy()), into))


def _of_numpy(value: Any) -> Piece | None:
    import numpy

    refuse_masked(value)
    array = numpy.asarray(value)
    dtype = array.dtype.name
    if dtype not in SIZES or array.dtype.hasobject:
        return None
    if array.dtype.byteorder not in "=|":
        array = array.astype(array.dtype.newbyteorder("="))

    def write(into: memoryview) -> None:
        if array.flags.c_contiguous:
            flat: Any = array.reshape(-1).view("uint8")
            _copy(memoryview(flat), into)
        else:
            there = numpy.frombuffer(into, array.dtype).reshape(array.shape)
            numpy.copyto(there, array)

    return Piece(dtype, tuple(int(one) for one in array.shape), write)


def refuse_masked(value: Any) -> None:
    """TypeError: it is an array of numpy.ma."""
    import numpy

    if isinstance(value, numpy.ma.MaskedArray):
        raise TypeError("a masked array cannot be shared, since its mask would be lost: pass `.filled(…)`, or `.data` and `.mask`")


def _of_buffer(buffer: memoryview) -> Piece:
    """The array of a buffer, or of an `array.array` of integers."""
    kinds = {"b": "int", "h": "int", "i": "int", "l": "int", "q": "int", "f": "float", "d": "float"}
    kind = kinds.get(buffer.format.lower(), "") if buffer.format in "bBhHiIlLqQfd" else ""
    if not kind or not buffer.c_contiguous:
        raise TypeError(f"a buffer of format {buffer.format!r} is not an array")
    unsigned = "u" if kind == "int" and buffer.format.isupper() else ""
    dtype = f"{unsigned}{kind}{8 * buffer.itemsize}"
    return Piece(dtype, tuple(buffer.shape or ()), lambda into: _copy(buffer.cast("B"), into))


def _copy(source: memoryview, into: memoryview) -> None:
    for begin in range(0, len(source), _PIECE):
        into[begin : begin + _PIECE] = source[begin : begin + _PIECE]
