"""Files whose arrays can be used directly: .npy, .npz, .safetensors and raw files.

This module reads only heads; it returns arrays as places in the file.  If the bytes differ from those of an
array in memory, `why_not` has the reason, and a program with numpy can load the file the slow way.

Sources: numpy's NEP 1 and numpy/lib/format.py (.npy), PKWARE's APPNOTE 4.3.7 (the local heads of a zip
file), the README of safetensors.
"""

from __future__ import annotations

import ast
import json
import math
import os
import re
import struct
import zipfile
from typing import IO, Any, NamedTuple

_NPY_MAGIC = b"\x93NUMPY"
_LONGEST_HEAD = 100 << 20  # bytes; that of safetensors has the same limit

# Of a .npy head: kind and size.  "|" where there is no order of bytes.
_OF_NUMPY = {
    "b1": "bool", "i1": "int8", "u1": "uint8", "i2": "int16", "u2": "uint16", "i4": "int32", "u4": "uint32",
    "i8": "int64", "u8": "uint64", "f2": "float16", "f4": "float32", "f8": "float64", "c8": "complex64", "c16": "complex128",
}  # fmt: skip
_OF_SAFETENSORS = {
    "BOOL": "bool", "I8": "int8", "U8": "uint8", "I16": "int16", "U16": "uint16", "I32": "int32", "U32": "uint32",
    "I64": "int64", "U64": "uint64", "F16": "float16", "F32": "float32", "F64": "float64", "C64": "complex64",
    "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
}  # fmt: skip
SIZES = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
    "float16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16,
    "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1,
}  # fmt: skip
"""Bytes of a value."""


class BadFile(ValueError):
    """A file is damaged, or has another format."""

    __module__ = "pergpu.share"  # where people know it from


class Stored(NamedTuple):
    """An array in a file, in C order and in this machine's byte order."""

    name: str
    """"" if the file is one array."""
    dtype: str
    shape: tuple[int, ...]
    offset: int
    """Of its first byte in the file."""

    @property
    def aligned(self) -> bool:
        """Whether it can be used in place: usually not if `numpy.savez` wrote it."""
        return self.offset % SIZES[self.dtype] == 0

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * SIZES[self.dtype]


class Contents(NamedTuple):
    arrays: list[Stored]
    why_not: str
    """Not empty: why the bytes can't be used as arrays in memory."""


def read_head(path: str | os.PathLike[str]) -> Contents:
    """Detects the format by the suffix.  OSError: it can't be read.  BadFile: it doesn't match its suffix, or the
    suffix is unknown."""
    name = os.fspath(path)
    end = os.path.splitext(name)[1].lower()
    with open(name, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            if end == ".npy":
                found = _npy(file, "")
            elif end == ".npz":
                found = _npz(file)
            elif end == ".safetensors":
                found = _safetensors(file)
            else:
                raise BadFile(f"the suffix is {end!r}; expected .npy, .npz or .safetensors, or a dtype for a raw file, such as dtype=\"uint16\"")
            for one in found.arrays:
                if one.offset + one.nbytes > size:
                    what = f"{one.name}: " if one.name else ""
                    raise BadFile(f"{what}{one.dtype} {one.shape} would end at byte {one.offset + one.nbytes} of {size}: the file is cut off")
        except BadFile as error:
            raise BadFile(f"{name}: {error}") from None
        except (zipfile.BadZipFile, EOFError, struct.error) as error:
            raise BadFile(f"{name}: {error or 'the file is cut off'}") from None
    return found


def raw(path: str | os.PathLike[str], dtype: str, shape: tuple[int, ...] | None = None, offset: int = 0) -> Stored:
    """A raw file, which has only values; without a shape, all of them from `offset` on, in one dimension.  A
    dimension of -1 is computed from the file's size.

    OSError: it can't be read.  BadFile: the shape doesn't match the file.
    """
    name, size = os.fspath(path), os.stat(path).st_size
    if dtype not in SIZES:
        raise BadFile(f"{name}: there is no dtype {dtype!r}; expected one of {', '.join(SIZES)}")
    if not 0 <= offset <= size:
        raise BadFile(f"{name}: offset is {offset}, outside the file of {size} bytes")
    try:
        stored = Stored("", dtype, _whole(dtype, (-1,) if shape is None else shape, size - offset), offset)
    except BadFile as error:
        raise BadFile(f"{name}: {error}") from None
    if stored.nbytes != size - offset:
        raise BadFile(f"{name}: {dtype} {stored.shape} needs {stored.nbytes} bytes, but the file has {size - offset} from byte {offset} on")
    return stored


def _whole(dtype: str, shape: Any, nbytes: int) -> tuple[int, ...]:
    """The shape, with its dimension of -1 computed."""
    open_sides = [i for i, side in enumerate(shape) if side == -1] if isinstance(shape, (tuple, list)) else []
    if len(open_sides) > 1:
        raise BadFile(f"{tuple(shape)} has {len(open_sides)} dimensions of -1: only one can be computed from the file's size")
    if not open_sides:
        return _checked_shape(shape)
    (at,) = open_sides
    rest = _checked_shape((*shape[:at], *shape[at + 1 :]))
    row = math.prod(rest) * SIZES[dtype]
    if row == 0 or nbytes % row:
        of = f"rows of {dtype} {rest} ({row} bytes each)" if rest else f"{dtype} ({row} bytes each)"
        raise BadFile(f"{nbytes} bytes are not a whole number of {of}")
    return (*rest[:at], nbytes // row, *rest[at:])


def _checked_shape(shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, (tuple, list)) or not all(type(one) is int and 0 <= one < 1 << 62 for one in shape):
        raise BadFile(f"{shape!r} is not a shape")
    return tuple(shape)


def _npy(file: IO[bytes], name: str) -> Contents:
    """An array that begins at the file's position."""
    magic = file.read(8)
    if not magic.startswith(_NPY_MAGIC) or len(magic) < 8:
        raise BadFile("it does not begin like a .npy file")
    wide = magic[6] >= 2
    (length,) = struct.unpack("<I" if wide else "<H", file.read(4 if wide else 2))
    if length > _LONGEST_HEAD:
        raise BadFile(f"its head would have {length} bytes")
    try:
        head = ast.literal_eval(file.read(length).decode("utf-8" if magic[6] >= 3 else "latin-1").strip())
        descr, fortran, shape = head["descr"], head["fortran_order"], head["shape"]
    except (SyntaxError, ValueError, KeyError, TypeError, RecursionError, MemoryError) as error:
        raise BadFile(f"its head cannot be read: {error}") from None
    shape = _checked_shape(shape)
    if not isinstance(descr, str) or not re.fullmatch(r"[<>|=][a-zA-Z]\d*", descr):
        return Contents([], f"an array of records ({descr!r:.200})")
    if descr[1:].startswith("O"):
        return Contents([], "an array of Python objects")
    dtype = _OF_NUMPY.get(descr[1:])
    if dtype is None:
        return Contents([], f"an array of {descr}")
    if descr[0] == ">" and SIZES[dtype] > 1:
        return Contents([], f"its bytes are in another byte order ({descr})")
    if fortran and len(shape) > 1:
        return Contents([], "it is stored column by column (fortran_order)")
    return Contents([Stored(name, dtype, shape, file.tell())], "")


def _npz(file: IO[bytes]) -> Contents:
    arrays = []
    try:
        entries = zipfile.ZipFile(file).infolist()
    except (NotImplementedError, ValueError, OverflowError, OSError) as error:  # of damaged ones
        raise BadFile(f"it cannot be read as a zip file: {error}") from None
    for entry in entries:
        name = entry.filename[:-4] if entry.filename.endswith(".npy") else entry.filename
        if entry.flag_bits & 1:
            return Contents([], f"{name} is encrypted")
        if entry.compress_type != zipfile.ZIP_STORED:
            return Contents([], f"{name} is compressed (write it with numpy.savez instead of savez_compressed)")
        # Names and extra fields of the local head are its own, not those of the directory.
        file.seek(max(entry.header_offset, 0))
        magic, name_length, extra_length = struct.unpack("<4s22xHH", file.read(30))
        if magic != b"PK\x03\x04":
            raise BadFile(f"{name}: the zip directory doesn't match the file")
        file.seek(name_length + extra_length, os.SEEK_CUR)
        found = _npy(file, name)
        if found.why_not:
            return Contents([], f"{name}: {found.why_not}")
        arrays += found.arrays
    return Contents(arrays, "")


def _safetensors(file: IO[bytes]) -> Contents:
    (length,) = struct.unpack("<Q", file.read(8))
    if length > _LONGEST_HEAD:
        raise BadFile(f"its head would have {length} bytes; it is not a safetensors file")
    arrays = []
    try:
        head = json.loads(file.read(length).decode())
        head.pop("__metadata__", None)
        for name, entry in head.items():
            begin, end = entry["data_offsets"]
            dtype = _OF_SAFETENSORS.get(entry["dtype"])
            if dtype is None:
                return Contents([], f"{name}: an array of {entry['dtype']}")
            one = Stored(name, dtype, _checked_shape(entry["shape"]), 8 + length + begin)
            if type(begin) is not int or begin < 0 or end - begin != one.nbytes:
                raise BadFile(f"{name}: {dtype} {one.shape} needs {one.nbytes} bytes, but its place has {end - begin}")
            arrays.append(one)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, BadFile):
            raise
        raise BadFile(f"its head cannot be read: {type(error).__name__}: {error}") from None
    return Contents(arrays, "")
