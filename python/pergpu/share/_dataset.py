"""Data that all processes of a user on a machine share, in one copy.

If the arrays of a file are stored as they would be in memory, the file is mapped, and the kernel's page cache
is the one copy.  Any other data is loaded into a sealed segment by the first process that asks, while the
others wait for it (_meeting.py).  _content.py describes the segment.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from .. import _share
from .._holder import hold
from .._share import Array
from . import _content, _formats
from ._formats import Stored
from ._meeting import frames_of_ours, meet, name_of, scoped
from ._origin import origin_of
from ._visit import Scope, drop_held

View = Literal["cow", "ro", "shared"]

_seen: dict[tuple[str, Scope], _share.Memory] = {}  # what this process has attached, by full key
_kept: set[tuple[str, Scope]] = set()  # of these, what it has asked to keep
_by_key: dict[str, set[tuple[str, Scope]]] = {}  # the full keys of a key


def dataset(
    key: str | os.PathLike[str],
    source: Any = None,
    *,
    dtype: str | None = None,
    shape: tuple[int, ...] | None = None,
    offset: int = 0,
    view: View = "cow",
    huge_pages: bool = False,
    scope: Scope = "user",
    keep: bool = False,
) -> Any:
    """Returns the data of `source`, which all processes of this user that ask for `key` share.

    `source`: a file (.npy, .npz, .safetensors, or with `dtype`), or a function without arguments that
    returns arrays, lists, and dicts and tuples of these.  Without a source, `key` is the file.  A different
    function is different data: the key includes the folder of its file, its name, its code, the code of
    functions of the same module that it calls, and the values bound to it.  The first process that asks
    loads the data; the others wait for it, and attach in milliseconds.  If the loading process dies, the
    next one loads it.  The memory is freed when the last process that asked for it ends, however it ends,
    unless `scope` or `keep` changes that.

    The result has the structure of the source.  Arrays become Array (`numpy.asarray`, `torch.from_dlpack`
    and `[…]` take it without a copy).  Lists become SharedList, but up to 100 arrays stay a list.  Dicts and
    tuples stay.  A file gives an Array (.npy, raw) or a dict of them.

    `dtype`: the file, whatever its name, has only values of this type ("uint16", "bfloat16", …, in this
    machine's byte order), in `shape`, from byte `offset` to its end.  Without a shape they are
    one-dimensional; one dimension may be -1.

    `view`: with "cow", a process may write to its arrays, and then has private copies of those pages.
    With "ro", a write ends the process, which shows which process wrote.  With "shared", all processes
    that asked with this view see each other's writes; processes with another view have separate data.
    "shared" loads a file as a copy in memory.

    `huge_pages`: uses the kernel's pool of huge pages.  If the pool has too few, you get normal pages and
    a RuntimeWarning.

    `scope`: with "sweep", in a job, only the job's sweep shares the data: another sweep that asks for the
    same key gets separate data.  The data stays until no job of the sweep can run any more.  `keep=True`,
    in a job: the data stays when all processes that asked for it have ended, until `pergpu share drop KEY`
    or the end of the coordinator.  From a file, a copy in memory stays.  Without `keep`, a directly mapped
    file ignores `scope`: the kernel keeps its pages as long as it has room for them.

    TypeError: a value bound to the function can't be compared.
    ValueError: the file is damaged, can't be shared, or doesn't match `shape`; "sweep" or `keep` outside of a job.
    OSError: it can't be read.  MemoryError: not enough memory.  Exceptions of `source` are raised here.
    RuntimeWarning: the coordinator can't hold the data now, as you asked.

    >>> import array
    >>> squares = dataset("squares", lambda: array.array("q", (i * i for i in range(1000))))
    >>> memoryview(squares)[31]
    961
    """
    if view not in ("cow", "ro", "shared"):
        raise ValueError(f'view is {view!r}; expected "cow", "ro" or "shared"')
    if scope not in ("user", "sweep"):
        raise ValueError(f'scope is {scope!r}; expected "user" or "sweep"')
    if dtype is None and (shape is not None or offset):
        raise TypeError("shape and offset are for raw files, which have only values: pass dtype, too")
    if dtype is not None and not isinstance(dtype, str):
        raise TypeError(f'dtype is {dtype!r}; expected a name like "uint16"')
    asked = _Asked(os.fspath(key), view, huge_pages, scope, bool(keep))
    if source is None or isinstance(source, (str, os.PathLike)):
        path = os.fspath(key if source is None else source)
        if dtype is None:
            return _of_file(asked, asked.key, path, _formats.read_head(path), path.lower().endswith(".npy"))
        stored = _formats.raw(path, dtype, shape, offset)
        return _of_file(asked, f"{asked.key} {stored}", path, _formats.Contents([stored], ""), True)
    if not callable(source):
        raise TypeError(f"source is {type(source).__name__}; expected a file or a function")
    if dtype is not None:
        raise TypeError("dtype is for raw files; a function's arrays have their own dtypes")
    return _once(f"function {asked.key}\n{origin_of(source)}", source, asked)


def drop(key: str | os.PathLike[str]) -> bool:
    """Releases the data of `key`: the data of all functions and files that this process requested with it, and what the
    coordinator, or the executor of this call, holds for it.  Returns whether there was any.

    The next dataset(key) of this process loads the data again, unless another process still has it: then it gets
    that data.  Arrays in this process stay valid, and the memory is freed with the last of them.

    >>> import array
    >>> numbers = dataset("numbers", lambda: array.array("q", [1, 2, 3]))
    >>> drop("numbers"), drop("numbers")
    (True, False)
    """
    title = os.fspath(key)
    places = _by_key.pop(title, set())
    for place in places:
        memory = _seen.pop(place, None)
        _kept.discard(place)
        hold(name_of("data", place[0]), None)
        if memory is not None:
            memory.close()
    return drop_held(title) or bool(places)


class _Asked(NamedTuple):
    key: str
    view: View
    huge_pages: bool
    scope: Scope
    keep: bool


def _of_file(asked: _Asked, key: str, path: str, found: _formats.Contents, is_one: bool) -> Any:
    """`is_one`: an array, not a dict."""
    is_to_copy = asked.huge_pages or asked.keep or asked.view == "shared"
    if not found.why_not and not is_to_copy and all(one.aligned for one in found.arrays):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            mapped = {one.name: _mapped(fd, one, asked.view) for one in found.arrays}
        finally:
            os.close(fd)
        return mapped[""] if is_one else mapped
    status = os.stat(path)  # another file of this name is other data
    full = f"file {key} {status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns}"
    return _once(full, lambda: _loaded(path, found, is_one), asked)


def _mapped(fd: int, stored: Stored, view: View) -> Array:
    region = _share.map_file(fd, stored.offset, stored.nbytes, view) if stored.nbytes else bytearray()
    return Array(region, 0, stored.shape, stored.dtype)


def _loaded(path: str, found: _formats.Contents, is_one: bool) -> Any:
    if found.why_not:
        return _by_numpy(path, found.why_not)
    pieces = {one.name: _content.Piece(one.dtype, one.shape, _reader(path, one.offset)) for one in found.arrays}
    return pieces[""] if is_one else pieces


def _reader(path: str, offset: int) -> Callable[[memoryview], None]:
    def read(into: memoryview) -> None:
        with open(path, "rb", buffering=0) as file:
            file.seek(offset)
            while into:
                done = file.readinto(into[: 256 << 20])
                if not done:
                    raise _formats.BadFile(f"{path}: the file has become shorter")
                into = into[done:]

    return read


def _by_numpy(path: str, why_not: str) -> Any:
    if path.lower().endswith(".safetensors"):
        raise _formats.BadFile(f"{path}: {why_not}, which cannot be shared")
    try:
        import numpy
    except ImportError:
        raise _formats.BadFile(f"{path}: {why_not}; loading it needs numpy, which this Python does not have") from None
    try:
        loaded = numpy.load(path, allow_pickle=False)
        values = dict(loaded) if hasattr(loaded, "files") else {"": loaded}
    except ValueError as error:
        raise _formats.BadFile(f"{path}: {error}") from None
    for name, value in values.items():
        if _content.piece_of(value) is None:
            raise _formats.BadFile(f"{path}: {name and name + ': '}{why_not}, which cannot be shared")
    return values.get("", values)


def _once(key: str, load: Callable[[], Any], asked: _Asked) -> Any:
    writable = asked.view == "shared"
    key = scoped(("writable " if writable else "") + key, asked.scope)
    place = (key, asked.scope)
    memory = _seen.get(place)
    if memory is None or (asked.keep and place not in _kept):
        memory = meet(
            "data",
            key,
            lambda found: found.sealed != writable and _content.head_of(_flat(found.map("ro")))["key"] == key,
            lambda name: _made(name, key, load(), asked),
            scope=asked.scope,
            keep=asked.keep,
            title=asked.key,
        )
        _seen[place] = memory
        _by_key.setdefault(asked.key, set()).add(place)
        if asked.keep:
            _kept.add(place)
    region = memory.map(asked.view)
    head = _content.head_of(_flat(region))
    return _content.value_of(head, lambda offset, shape, dtype: Array(region, offset, shape, dtype))


def _made(name: str, key: str, value: Any, asked: _Asked) -> _share.Memory:
    layout = _content.Layout(key, value)
    memory = _share.Memory.create(name, layout.nbytes, asked.huge_pages)
    try:
        if asked.huge_pages and not memory.huge:
            warnings.warn(_no_huge_pages(asked.key, layout.nbytes), RuntimeWarning, stacklevel=frames_of_ours())
        region = memory.map("shared")
        flat = _flat(region)
        layout.write(flat)
        flat.release()
        del flat, region  # as long as somebody may write it cannot be sealed
        if asked.view != "shared":
            memory.seal()
        return memory
    except BaseException:
        memory.close()
        raise


def _no_huge_pages(key: str, nbytes: int) -> str:
    found = {"HugePages_Free:": 0, "Hugepagesize:": 2048}  # the latter in KiB
    with open("/proc/meminfo", encoding="ascii") as file:
        found.update((words[0], int(words[1])) for words in map(str.split, file) if words[0] in found)
    size = found["Hugepagesize:"] << 10
    wanted = -(-nbytes // size)
    return (
        f"{key!r} is in normal pages: it needs {wanted} huge pages of {size >> 20} MiB, and the kernel's pool has "
        f"{found['HugePages_Free:']} left; as root, run `sysctl vm.nr_hugepages={wanted}` to get more"
    )


def _flat(region: Any) -> memoryview:
    return memoryview(region)
