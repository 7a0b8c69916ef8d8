"""Keeps a sweep's shared memory while its executor is open, even if none of its jobs runs or waits for a moment.

The coordinator frees such memory when no job of the sweep can run any more.  But more calls may come.  So a
call that made or found memory sends its executor a descriptor of it (share/_meeting.py), by the socket that
VARIABLE names.  The next call finds the memory among the open files of the executor's process.
"""

from __future__ import annotations

import array
import itertools
import os
import socket
import struct
import sys
import threading

from . import _private
from ._calls_folder import CallsFolder

VARIABLE = "PERGPU_HOLDER"
_LONGEST_NAME = 100
_PATIENCE_S = 5.0
_END_S = 2.0  # for the thread, which ends at once unless a call is talking to it
_numbers = itertools.count()


class Holder:
    """Holds memory for one executor.  Nothing happens before start()."""

    def __init__(self, folder: CallsFolder) -> None:
        """`folder`: for the socket, which is there when it starts."""
        self._folder = folder
        self._name = f"holder-{os.getpid()}-{next(_numbers)}"
        self.path = f"{folder.path}/{self._name}"
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._held: dict[str, int] = {}  # descriptors by the name of the memory
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def start(self) -> None:
        """Call it once.  If no socket or thread can be made, nothing is held."""
        if self._socket is not None:
            return
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.bind(f"/proc/self/fd/{self._folder.made()}/{self._name}")  # however long the path is
            listening.listen(128)
            self._socket = listening
            thread = threading.Thread(target=self._serve, args=(listening,), name="pergpu-holder", daemon=True)
            thread.start()
            self._thread = thread
        except (OSError, RuntimeError):
            listening.close()

    def close(self) -> None:
        """Frees everything.  May be called more than once, and at any moment."""
        listening = self._socket
        if listening is None or os.getpid() != self._pid:
            return
        try:
            listening.shutdown(socket.SHUT_RDWR)  # the thread ends
        except OSError:
            pass
        listening.close()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread() and not sys.is_finalizing():
            thread.join(_END_S)
        try:
            os.unlink(self._name, dir_fd=self._folder.found())
        except OSError:
            pass
        with self._lock:
            self._closed = True
            held, self._held = self._held, {}
        for fd in held.values():
            os.close(fd)

    def _serve(self, listening: socket.socket) -> None:
        with listening:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    try:
                        self._take(connection)
                    except OSError:
                        pass  # it has ended

    def _take(self, connection: socket.socket) -> None:
        connection.settimeout(_PATIENCE_S)
        name, fds, _, _ = socket.recv_fds(connection, _LONGEST_NAME, 1)
        is_ours = _uid_of(connection) == os.getuid()
        if not fds and is_ours:
            with self._lock:
                dropped = self._held.pop(name.decode(errors="replace"), None)
            if dropped is not None:
                os.close(dropped)
        for fd in fds:
            unused: int | None = fd
            with self._lock:
                if name and is_ours and not self._closed:
                    key = name.decode(errors="replace")
                    unused = self._held.get(key)
                    self._held[key] = fd
            if unused is not None:
                os.close(unused)
        connection.send(b"y")


def _uid_of(connection: socket.socket) -> int:
    """The user ID of the process at the other end."""
    uid: int = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
    return uid


def hold(name: str, fd: int | None) -> None:
    """Sends memory to the executor of this process's call, if it still exists.  None: it drops that memory."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.settimeout(_PATIENCE_S)
            at = _private.open_folder(os.path.dirname(path))
            try:
                connection.connect(f"/proc/self/fd/{at}/{os.path.basename(path)}")
            finally:
                os.close(at)
            if _uid_of(connection) != os.getuid():
                return  # another user has put it there
            rights = [] if fd is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
            connection.sendmsg([name.encode()], rights)
            connection.recv(1)
        except OSError:
            pass  # the executor has gone
