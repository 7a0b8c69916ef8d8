"""Model files of several runs: their mean, and the best one.

The compiled part computes the mean, a few megabytes at a time.  This module matches the arrays of the files.
A result is written to a temporary file and renamed when it is complete.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _share
from ._formats import BadFile, Stored, read_head

if TYPE_CHECKING:
    from .._reported import Best

_REALS = ("float16", "bfloat16", "float32", "float64")
_PIECE = 64 << 20  # bytes of the result, after which a signal is seen

Paths = Sequence["str | os.PathLike[str]"]


def mean(paths: Paths, out: str | os.PathLike[str], weights: Sequence[float] | None = None) -> None:
    """Writes the mean of the arrays of several files, name by name, to `out`.

    All files, including `out`, are .safetensors, .npz (not compressed) or .npy.  Their arrays have the same
    names, shapes and dtypes.  float16, bfloat16 and float32 are summed as float32; float64 as float64.  Other
    arrays (counters, masks) are copied if they are equal in all files.  `weights`: one for each file; they
    are divided by their sum.

    A few megabytes of each file are in memory at a time.  `out` is replaced when the result is complete,
    and unchanged after an error; it may be one of the files.  For .safetensors, the metadata of the first
    file is kept.  Don't shorten the files while this runs: replace them (`os.replace`).

    ValueError: the files don't match (the message has file, array and shapes), integers differ, or the
    weights don't match.  BadFile: a file is damaged or can't be averaged.  OSError: a file can't be read or
    written.
    """
    names = _checked_paths(paths, out)
    shares = _checked_weights(weights, len(names))
    arrays = _arrays_of_all(names)
    with ExitStack() as stack:
        fds = [stack.enter_context(_opened(name)) for name in names]
        with _replaced(os.fspath(out)) as into:
            if _end_of(out) == ".npz":
                _write_npz(arrays, names, fds, shares, into)
            else:
                _write_alike(arrays, names, fds, shares, into)


def best_of(metric: str, file: str, out: str | os.PathLike[str], mode: str = "min", sweep: str | None = None, *,
            at: str = "best", step: str | None = None, link: bool = False) -> Best:  # fmt: skip
    """Copies the file of the run that is best by a metric to `out`, and returns the run, as pergpu.best().

    `file`: its name in the job's folder ("model.safetensors").  `mode`, `sweep`, `at`, `step`: as for
    pergpu.best().  `out` is replaced when the copy is complete.  link=True: makes a hard link, which takes
    no space.  Then a write to one of the two changes both, as `torch.save` does in a running job.

    LookupError, ValueError: as for pergpu.best().  FileNotFoundError: the best run has no such file.
    OSError: it can't be read or written, or the link would cross file systems.
    """
    from .._reported import best

    if os.path.isabs(file):
        raise ValueError(f"file is {file!r}; expected a name in the job's folder")
    found = best(metric, mode, sweep, at=at, step=step)
    source = os.path.join(found.out, file)
    if not os.path.isfile(source):
        words = f"run {found.run} is best ({metric} {found.value:g}) and has no such file"
        raise FileNotFoundError(2, words, source)
    if link:
        _link(source, os.fspath(out))
        return found
    with _opened(source) as fd, _replaced(os.fspath(out)) as into:
        _copy(fd, 0, into, 0, os.fstat(fd).st_size)
    return found


def _link(source: str, out: str) -> None:
    part = _part_of(out)
    os.link(source, part)
    try:
        os.replace(part, out)
    finally:
        if os.path.lexists(part):  # both were the same file already
            os.unlink(part)


def _checked_paths(paths: Paths, out: str | os.PathLike[str]) -> list[str]:
    if isinstance(paths, (str, os.PathLike)):
        raise TypeError(f"paths is {paths!r}; expected a list of files")
    names = [os.fspath(path) for path in paths]
    if not names:
        raise ValueError("paths is empty; expected one file or more")
    for name in names:
        if _end_of(name) != _end_of(out):
            raise ValueError(f"{name} can't be averaged to {os.fspath(out)}; expected files of one kind")
    return names


def _checked_weights(weights: Sequence[float] | None, count: int) -> list[float]:
    shares = [1.0] * count if weights is None else [float(one) for one in weights]
    if len(shares) != count:
        raise ValueError(f"there are {len(shares)} weights for {count} files")
    if not all(map(math.isfinite, shares)) or sum(shares) == 0:
        raise ValueError(f"weights are {shares}; expected finite numbers whose sum is not 0")
    return shares


def _end_of(path: str | os.PathLike[str]) -> str:
    return os.path.splitext(os.fspath(path))[1].lower()


def _arrays_of_all(names: list[str]) -> list[list[Stored]]:
    """For each array of the first file, in its order, its place in each of the files."""
    first, *others = [_arrays_of(name) for name in names]
    for name, arrays in zip(names[1:], others):
        for one in [*first.values(), *arrays.values()]:
            mine, theirs = arrays.get(one.name), first.get(one.name)
            if mine is None or theirs is None:
                has, lacks = (name, names[0]) if theirs is None else (names[0], name)
                raise ValueError(f"{lacks} has no array {one.name!r}, which {has} has")
            if (mine.dtype, mine.shape) != (theirs.dtype, theirs.shape):
                called = f"{one.name!r}" if one.name else "the array"
                raise ValueError(
                    f"{called} is {theirs.dtype} {theirs.shape} in {names[0]} and {mine.dtype} {mine.shape} in {name}"
                )
    return [[one, *(arrays[one.name] for arrays in others)] for one in first.values()]


def _arrays_of(name: str) -> dict[str, Stored]:
    found = read_head(name)
    if found.why_not:
        raise BadFile(f"{name}: {found.why_not}, which can't be averaged")
    return {one.name: one for one in found.arrays}


def _write_alike(arrays: list[list[Stored]], names: list[str], fds: list[int], weights: list[float], into: int) -> None:
    """Copies the first file with other values: .npy and .safetensors."""
    size = os.fstat(fds[0]).st_size
    at = 0
    for places in sorted(arrays, key=lambda one: (one[0].offset, one[0].nbytes)):
        begin = places[0].offset
        if begin < at:
            raise BadFile(f"{names[0]}: {places[0].name!r} begins within another array")
        _copy(fds[0], at, into, at, begin - at)
        for offset, count in _pieces(places[0]):
            _write_piece(places, names, fds, weights, offset, count, into, begin + offset)
        at = begin + places[0].nbytes
    _copy(fds[0], at, into, at, size - at)


def _write_npz(arrays: list[list[Stored]], names: list[str], fds: list[int], weights: list[float], into: int) -> None:
    """A new file, whose checksums must be computed: each piece goes through memory."""
    largest = max((places[0].nbytes for places in arrays), default=0)
    memory = _share.Memory.create("mean", min(largest, _PIECE) or 1)
    region: Any = memory.map("ro")
    with open(into, "wb", closefd=False) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for places in arrays:
            with archive.open(places[0].name + ".npy", "w", force_zip64=True) as entry:
                entry.write(_npy_head(places[0], fds[0]))
                for offset, size in _pieces(places[0]):
                    _write_piece(places, names, fds, weights, offset, size, memory.fileno(), 0)
                    entry.write(memoryview(region)[:size])


def _npy_head(stored: Stored, fd: int) -> bytes:
    """The bytes before the array in its own file; they contain only its shape and type."""
    longest = 1 << 16
    before = os.pread(fd, min(longest, stored.offset), stored.offset - min(longest, stored.offset))
    begin = before.rfind(b"\x93NUMPY")
    if begin < 0:
        raise BadFile(f"{stored.name!r} has a head of more than {longest} bytes")
    return before[begin:]


def _pieces(stored: Stored) -> Iterator[tuple[int, int]]:
    """(offset, length) in bytes."""
    for offset in range(0, stored.nbytes, _PIECE):
        yield offset, min(_PIECE, stored.nbytes - offset)


def _write_piece(places: list[Stored], names: list[str], fds: list[int], weights: list[float], offset: int, size: int,
                 into: int, at: int) -> None:  # fmt: skip
    first = places[0]
    if first.dtype in _REALS:
        width = first.nbytes // math.prod(first.shape)
        sources = [(fd, one.offset + offset, weight) for fd, one, weight in zip(fds, places, weights)]
        _share.write_mean(first.dtype, sources, size // width, (into, at))
        return
    expected = _bytes_of(fds[0], first.offset + offset, size, names[0])
    for name, fd, one in zip(names[1:], fds[1:], places[1:]):
        if _bytes_of(fd, one.offset + offset, size, name) != expected:
            raise ValueError(
                f"{first.name!r} is {first.dtype}, which can't be averaged, and differs between {names[0]} and {name}"
            )
    _write(into, at, expected)


def _bytes_of(fd: int, offset: int, size: int, name: str) -> bytes:
    found = b""
    while len(found) < size:
        more = os.pread(fd, size - len(found), offset + len(found))
        if not more:
            raise BadFile(f"{name}: the file has become shorter")
        found += more
    return found


def _write(into: int, at: int, data: Any) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(into, view, at)
        view, at = view[done:], at + done


def _copy(source: int, begin: int, into: int, at: int, size: int) -> None:
    for offset in range(0, size, _PIECE):
        data = os.pread(source, min(_PIECE, size - offset), begin + offset)
        _write(into, at + offset, data)


@contextmanager
def _opened(name: str) -> Iterator[int]:
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _part_of(out: str) -> str:
    """A temporary name in the same folder that no other process uses."""
    path = Path(out)
    return str(path.parent / f".{path.name[:200]}.{os.getpid()}-{os.urandom(4).hex()}.part")


@contextmanager
def _replaced(out: str) -> Iterator[int]:
    """A descriptor of the file that will be `out` in the end; after an exception nothing has changed."""
    part = _part_of(out)
    fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            yield fd
        finally:
            os.close(fd)
        os.replace(part, out)
    except BaseException:
        os.unlink(part)
        raise
