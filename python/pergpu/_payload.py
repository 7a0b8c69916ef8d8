"""The file of a call, or of its result: a head, a pickle, and the pickle's large buffers.

A file begins with MAGIC and the length of the head.  The head is a marshalled dict with the data that is known
without running code; "pickle" and "buffers" are the sizes of the parts that follow.  Each part begins at a
multiple of ALIGNMENT.  Buffers (PEP 574: numpy's arrays, bytearrays in a PickleBuffer) are written directly
from memory, and mapped copy-on-write when the file is read.  So an array of gigabytes is never in memory
a second time.

Processes that run calls load this without the rest of the package, before they know the search path for
modules.  So it imports nothing that costs a millisecond.
"""

import errno
import io
import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Optional, Union

    Path = Union[str, os.PathLike[str]]

if TYPE_CHECKING or __package__:
    from . import _private
else:
    import _private

MAGIC = b"pergpu payload 1\n"
ALIGNMENT = 64
RETURNED = "returned; its threads or children go on"  # a status: the result is written, and counts
LARGE = 1 << 16  # bytes: smaller buffers stay in the pickle
MAPPED_FROM = 1 << 20  # bytes: smaller buffers are read, which costs less than to map them


def c_pickle() -> "Any":
    """The C half of pickle.  It only asks functools for `partial`; loading all of functools would cost a fresh
    interpreter more than reading and writing the pickles does."""
    if "_pickle" not in sys.modules and "functools" not in sys.modules:
        only_partial: Any = type(sys)("functools")
        only_partial.partial = __import__("_functools").partial
        sys.modules["functools"] = only_partial
        try:
            import _pickle
        finally:
            del sys.modules["functools"]
    import _pickle

    return _pickle


class Buffers(list[memoryview]):
    """Collects the buffers outside a pickle: pass `take` as its buffer_callback."""

    def take(self, buffer: "Any") -> bool:
        """Whether the buffer stays in the pickle, because it is small or not contiguous."""
        try:
            view = buffer.raw()
        except BufferError:
            return True
        if len(view) < LARGE:
            return True
        self.append(view)
        return False


class Beside:
    """A buffer in a separate file of the same folder."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size


def load(pickled: bytes, buffers: "Sequence[Any]" = ()) -> "Any":
    """The object.  Names of the main module that were sent by value (_pickling.py) are put into this
    process's main module, where pickle looks for them.  Raises whatever unpickling raises."""
    file = io.BytesIO(pickled)
    unpickler = c_pickle().Unpickler(file, buffers=buffers)
    what = unpickler.load()
    while file.tell() < len(pickled):
        vars(sys.modules["__main__"]).update(unpickler.load())
    return what


class NotAPayload(ValueError):
    """The file is damaged, or isn't a payload."""


def write(
    path: "Path", head: "dict[str, Any]", pickled: bytes, buffers: "Sequence[Union[memoryview, Beside]]" = (), durable: bool = True,
    at: "Optional[int]" = None,
) -> None:  # fmt: skip
    """Puts a file there, whole or not at all; if it is to be `durable`, also when the power fails.

    `buffers` are flat, contiguous bytes.  Values in `head` must be of marshal's types.
    """
    inside = [buffer for buffer in buffers if not isinstance(buffer, Beside)]
    head = {**head, "pickle": len(pickled), "buffers": [len(buffer) for buffer in inside]}
    if len(inside) < len(buffers):
        head["beside"] = [(i, one.name, one.size) for i, one in enumerate(buffers) if isinstance(one, Beside)]
    packed = marshal.dumps(head, 4)
    if at is None:
        folder = _private.open_folder(os.path.dirname(path))
        try:
            _write_in(folder, path, 0o644, packed, (pickled, *inside), durable)
        finally:
            os.close(folder)
    else:  # the private folder (_private.py) in which it lies
        _write_in(at, path, 0o600, packed, (pickled, *inside), durable)


def _write_in(at: int, path: "Path", mode: int, packed: bytes, parts: "Sequence[Union[bytes, memoryview]]", durable: bool) -> None:
    """Whatever the umask, no other user can write to it: it would not be read then."""
    name = os.path.basename(path)
    temporary = f"{name}.{os.getpid()}.new"
    try:
        with io.FileIO(temporary, "x", opener=lambda new, flags: os.open(new, flags, mode, dir_fd=at)) as raw:
            _write_all(raw, b"%s%8d\n%s" % (MAGIC, len(packed), packed))
            for part in parts:
                _write_all(raw, bytes(-raw.tell() % ALIGNMENT))
                _write_all(raw, part)
            if durable:
                os.fsync(raw.fileno())
        os.rename(temporary, name, src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        try:
            os.unlink(temporary, dir_fd=at)
        except OSError:
            pass
        raise


def _write_all(raw: io.FileIO, data: "bytes | memoryview") -> None:
    """Repeats write(), which takes at most 2 GiB at a time."""
    view = memoryview(data)
    while view:
        view = view[raw.write(view) :]


class NotOurs(NotAPayload):
    """Another user may have written the file."""


def open_ours(path: "Path", at: "Optional[int]" = None) -> io.BufferedReader:
    """To read what is unpickled, which runs code.  NotOurs; OSError."""
    folder = _private.open_folder(os.path.dirname(path)) if at is None else at
    try:
        return open(open_ours_in(folder, path, os.O_RDONLY), "rb")
    finally:
        if at is None:
            os.close(folder)


def open_ours_in(at: int, path: "Path", flags: int, mode: int = 0o600) -> int:
    """A descriptor, in the open folder."""
    try:
        fd = _private.open_in(at, path, flags, mode)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        # A link: open it itself, and say so.
        fd = os.open(os.path.basename(path), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        check_ours(fd, path, at)
    except BaseException:
        os.close(fd)
        raise
    return fd


def check_ours(fd: int, path: "Path", at: int) -> None:
    """NotOurs: others may have written the file or replaced it."""
    found = os.fstat(fd)
    others = found.st_mode & 0o022
    is_regular = found.st_mode & 0o170000 == 0o100000
    is_one = found.st_nlink <= 1
    if is_regular and is_one and not others and found.st_uid in (0, os.geteuid()):
        return
    new = _private.new_beside(at, os.fspath(path)) if is_regular and is_one else None
    # Some file systems give all files to one user, or one mode.
    if new is not None and found.st_uid in (0, os.geteuid(), new.st_uid) and not others & ~new.st_mode:
        return
    why = f"others can write to it (mode {found.st_mode & 0o7777:04o})" if others else f"it belongs to uid {found.st_uid}"
    if not is_one:
        why = "it has other names"
    if not is_regular:
        why = "it's no regular file"
    raise NotOurs(
        f"{os.fspath(path)} isn't read: {why}. Another user may have put it there, and reading it could run their code. "
        "Remove the file and start the call again"
    )


class Payload:
    """An opened file: the head is read, the rest only on request.

    NotAPayload: it is damaged, or NotOurs.  OSError: it doesn't exist, or can't be read.
    """

    def __init__(self, path: "Path", at: "Optional[int]" = None) -> None:
        self.path = os.fspath(path)
        self._at = at  # the open folder in which it lies: stays open until load(); None: it's opened by its path
        with open_ours(path, at) as file:
            begin = file.read(len(MAGIC) + 9)
            try:
                if not begin.startswith(MAGIC):
                    raise ValueError("it does not begin like a payload")
                self.head: dict[str, Any] = marshal.loads(file.read(int(begin[len(MAGIC) :])))
                self._sizes = [self.head["pickle"], *self.head["buffers"]]
            except (ValueError, EOFError, TypeError, KeyError) as error:
                raise NotAPayload(f"{self.path} isn't a payload of pergpu: {error}") from None
            self._begin = file.tell()
            size = os.fstat(file.fileno()).st_size
        if size < self._places()[-1][1]:
            raise NotAPayload(f"{self.path} has {size} bytes, {self._places()[-1][1] - size} less than expected")

    def load(self) -> "Any":
        """The object.  Raises whatever unpickling raises."""
        places = self._places()
        with open_ours(self.path, self._at) as file:
            file.seek(places[0][0])
            pickled = file.read(self._sizes[0])
            buffers = [_buffer(file, begin, end) for begin, end in places[1:]]
        for i, name, size in self.head.get("beside", ()):
            with open_ours(os.path.join(os.path.dirname(self.path), name), self._at) as file:
                buffers.insert(i, _buffer(file, 0, size))
        return load(pickled, buffers)

    def _places(self) -> "list[tuple[int, int]]":
        places = []
        at = self._begin
        for size in self._sizes:
            at += -at % ALIGNMENT
            places.append((at, at + size))
            at += size
        return places


def _buffer(file: "io.BufferedReader", begin: int, end: int) -> "Any":
    """Writable, as the pickled array usually is; other processes don't see the changes."""
    if end - begin < MAPPED_FROM:
        file.seek(begin)
        return bytearray(file.read(end - begin))
    import mmap

    page = begin - begin % mmap.ALLOCATIONGRANULARITY
    mapped = mmap.mmap(file.fileno(), end - page, access=mmap.ACCESS_COPY, offset=page)
    return memoryview(mapped)[begin - page :]
