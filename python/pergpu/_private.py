"""Files in folders where other users may write, too: no name there can lead us to another file.

As in src/os/fs/folder_walk.h each folder of a path is opened in the one above it, once, and what follows is done in the
open folder.  Links on the way are followed only if this user or root owns them: another user's may lead to files
that only this user can reach.  A file itself is no link, is regular, has one name, and is opened without waiting.

What no other user may read, such as environments, lies in a folder that open_private() has opened: it stays the same one,
whatever its name leads to by now.
Like _payload.py it is loaded without the rest of the package, too.
"""

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Union

    Path = Union[str, os.PathLike[str]]

_HOLD = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_WAY_OUT = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_LINKS = 40  # as the kernel
_KIND, _LINK, _REGULAR = 0o170000, 0o120000, 0o100000  # of `stat`, which a fresh interpreter hasn't loaded


# Folders.


def open_folder(path: "Path", make: "Optional[int]" = None) -> int:
    """A descriptor for calls with dir_fd (O_PATH), "": of the current folder.  `make`: the mode of folders that
    are missing; None: none are made.  PermissionError: a link of another user is in the way."""
    path = os.fspath(path)
    at, links = _begin(path), 0
    left = path.split("/")[::-1]  # names to enter, the next one last
    try:
        while left:
            name = left.pop()
            if name in ("", "."):
                continue
            try:
                below = os.open(name, _HOLD | os.O_NOFOLLOW, dir_fd=at)
            except FileNotFoundError:
                if make is None:
                    raise
                _make(at, name, make)
                left.append(name)
                continue
            except OSError as error:
                if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                    raise
                links += 1
                target = _target(at, name, path)
                if links > _MOST_LINKS:
                    raise
                left += target.split("/")[::-1]
                if not target.startswith("/"):
                    continue
                below = _begin(target)
            os.close(at)
            at = below
        return at
    except BaseException as error:
        os.close(at)
        if isinstance(error, OSError):
            error.filename = path
        raise


def _begin(path: str) -> int:
    return os.open("/" if path.startswith("/") else ".", _HOLD)


def _make(at: int, name: str, mode: int) -> None:
    try:
        os.mkdir(name, mode, dir_fd=at)
    except FileExistsError:
        pass  # somebody was faster


def _target(at: int, name: str, path: str) -> str:
    link = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        found = os.fstat(link)
        if found.st_mode & _KIND != _LINK:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if found.st_uid not in (0, os.geteuid()):
            raise _refused(f"{name} in it is a link that belongs to uid {found.st_uid}", path)
        return os.readlink("", dir_fd=link)
    finally:
        os.close(link)


def open_private(path: "Path", make: bool = False) -> int:
    """A descriptor of a folder that no other user can read or write; it may be listed and synced.  `make`: it's made if it
    isn't there.  PermissionError: it is another user's, or a link."""
    path = os.fspath(path).rstrip("/")
    above = open_folder(os.path.dirname(path), 0o777 if make else None)
    try:
        return private_in(above, path, make)
    finally:
        os.close(above)


def private_in(above: int, path: str, make: bool = False) -> int:
    """The same in a folder that is open."""
    name = os.path.basename(path)
    if make:
        _make(above, name, 0o700)
    try:
        folder = os.open(name, _LIST, dir_fd=above)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise _refused("is a link, or no folder: another user may have put it there", path) from None
        error.filename = path
        raise
    try:
        _close_to_others(folder, above, path)
    except BaseException:
        os.close(folder)
        raise
    return folder


def _close_to_others(folder: int, above: int, path: str) -> None:
    found = os.fstat(folder)
    if found.st_uid != os.geteuid():
        new = new_beside(above, path)  # some file systems give all files to one user
        if new is None or new.st_uid != found.st_uid:
            raise _refused(f"belongs to uid {found.st_uid}: another user may have put it there", path)
    if found.st_mode & 0o077:
        try:
            os.fchmod(folder, 0o700)
        except OSError:
            new = new_beside(above, path)  # some have one mode for all
            if new is None or not new.st_mode & 0o077:
                raise


def new_beside(at: int, path: str) -> "Optional[os.stat_result]":
    """What a private file looks like in the open folder; None: none can be made."""
    name = f"{os.path.basename(path)}.{os.getpid()}.probe"
    try:
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=at)
    except OSError:
        return None
    try:
        os.unlink(name, dir_fd=at)
        return os.fstat(fd)
    finally:
        os.close(fd)


# Files.


def open_in(at: int, path: "Path", flags: int, mode: int = 0o600) -> int:
    """The file of that name in the open folder, unchecked: it may be anything but a link.  `path`: for messages, too."""
    try:
        return os.open(os.path.basename(path), flags | _NO_WAY_OUT, mode, dir_fd=at)
    except OSError as error:
        error.filename = os.fspath(path)
        raise


def open_regular(at: int, path: "Path", flags: int, mode: int = 0o600) -> int:
    """The same of a regular file with one name.  PermissionError: it isn't."""
    fd = open_in(at, path, flags, mode)
    try:
        found = os.fstat(fd)
        if found.st_mode & _KIND != _REGULAR or found.st_nlink > 1:
            raise _refused("is no regular file, or has other names: another user may have put it there", path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_by_path(path: "Path", flags: int, mode: int = 0o600) -> int:
    """The same by its path."""
    at = open_folder(os.path.dirname(path))
    try:
        return open_regular(at, path, flags, mode)
    finally:
        os.close(at)


def open_record(path: "Path", flags: int = os.O_RDONLY) -> int:
    """A log or a record: of this user, of root, or of the owner of its folder.  PermissionError: it is another user's."""
    at = open_folder(os.path.dirname(path))
    try:
        fd = open_regular(at, path, flags)
        owner = os.fstat(fd).st_uid
        if owner not in (0, os.geteuid(), os.fstat(at).st_uid):
            os.close(fd)
            raise _refused(f"belongs to uid {owner}", path)
        return fd
    finally:
        os.close(at)


def read_log(path: "Path") -> str:
    """All of it.  PermissionError: as open_record()."""
    with open(open_record(path), encoding="utf-8", errors="replace") as file:
        return file.read()


def remove(path: "Path") -> None:
    """A file.  OSError: it isn't there, or can't be removed."""
    at = open_folder(os.path.dirname(path))
    try:
        os.unlink(os.path.basename(path), dir_fd=at)
    finally:
        os.close(at)


def _refused(why: str, path: "Path") -> PermissionError:
    return PermissionError(errno.EPERM, why, os.fspath(path))
