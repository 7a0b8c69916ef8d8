"""Finds shared memory through the coordinator, over the socket that PERGPU_SHARE names.

A process that asks for a name gets a descriptor of its memory, or is asked to make it while the others wait; if
it ends before it has made the memory, the next process is asked.  The coordinator holds memory for a sweep, for
the processes that have it, or until it is dropped.

A frame is the length of its payload (four bytes, little-endian), its type and its payload, which is JSON
(src/broker/meeting_request.h).  A missing or silent coordinator is not an error: then processes find each
other without it (_meeting.py).
"""

from __future__ import annotations

import json
import os
import socket
import struct
from typing import Any, Callable, Literal, NamedTuple

from .._share import Memory

Scope = Literal["user", "sweep"]

_PATIENCE_S = 5.0  # for an answer that waits for nobody
_HEAD = struct.Struct("<IB")
_MOST_BYTES = 65536


class Wish(NamedTuple):
    """The requested memory, and how long it should be held."""

    name: str  # "data-" and 32 hexadecimal digits
    title: str  # for people
    scope: Scope
    keep: bool

    @property
    def lasts(self) -> bool:
        """Whether it should outlive the processes that have it."""
        return self.keep or self.scope == "sweep"


class _Silence(Exception):
    """There is no answer; the message has the reason."""


class _Left(_Silence):
    """There was a coordinator a moment ago."""


class Visit:
    """One connection, for one request.

    After an invalid answer, `why_not` has the reason; with `was_left` the coordinator has ended, and another
    one may come.
    """

    def __init__(self, wish: Wish) -> None:
        self.why_not = ""
        self.was_left = False
        self._wish = wish
        self._makes = False
        self._fds: list[int] = []
        self._bytes = b""
        self._socket: socket.socket | None = None

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            self._socket.close()
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()

    def find(self, is_it: Callable[[int], Memory | None]) -> Memory | None:
        """The memory that is_it() makes of a descriptor, which it owns.

        None: this process should make it, or there is no coordinator.
        """
        try:
            if self._socket is None:
                self._socket = _connected()
            other = False
            while True:
                found = self._answer_to_get(other)
                if found is None:
                    return None
                memory = is_it(found)
                if memory is not None:
                    return memory
                if other:
                    raise _Silence("the memory held by this name has other content")
                other = True
        except (OSError, _Silence) as error:
            self._note(error)
            return None

    def leave(self, memory: Memory) -> bool:
        """Gives the memory to the coordinator, if this process made it.  Returns whether it was taken."""
        if not self._makes or self._socket is None:
            return False
        try:
            answer = self._ask({"op": "put"}, [memory.fileno()])
        except (OSError, _Silence) as error:
            self._note(error)
            return False
        return bool(answer["is"] == "held")

    def _note(self, error: Exception) -> None:
        self.why_not = str(error)
        self.was_left = isinstance(error, (_Left, ConnectionError))

    def _answer_to_get(self, other: bool) -> int | None:
        wish = self._wish
        request: dict[str, Any] = {"op": "get", "name": wish.name, "title": wish.title, "scope": wish.scope, "keep": wish.keep, "other": other}
        if wish.scope == "sweep":
            request["job"] = int(os.environ["PERGPU_JOB"])
        answer = self._ask(request)
        while answer["is"] == "awaited":
            answer = self._answer(None)
        if answer["is"] == "yours":
            self._makes = True
            return None
        if answer["is"] != "here" or not self._fds:
            raise _Silence(f"unexpected answer: {answer}")
        return self._fds.pop(0)

    def _ask(self, request: dict[str, Any], fds: list[int] | None = None) -> dict[str, Any]:
        assert self._socket is not None
        text = json.dumps(request).encode()
        self._socket.settimeout(_PATIENCE_S)
        if fds:
            socket.send_fds(self._socket, [_HEAD.pack(len(text), ord("q")) + text], fds)
        else:
            self._socket.sendall(_HEAD.pack(len(text), ord("q")) + text)
        return self._answer(_PATIENCE_S)

    def _answer(self, patience: float | None) -> dict[str, Any]:
        assert self._socket is not None
        self._socket.settimeout(patience)
        length, _kind = _HEAD.unpack(self._exactly(_HEAD.size))
        if length > _MOST_BYTES:
            raise _Silence(f"an answer of {length} bytes")
        text = self._exactly(length)
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _Silence(f"unreadable answer: {error}") from None
        if not isinstance(answer, dict) or "is" not in answer:
            raise _Silence(f"unexpected answer: {answer}")
        if answer["is"] in ("no", "wrong"):
            raise _Silence(f"the coordinator reports: {answer.get('why')}")
        return answer

    def _exactly(self, count: int) -> bytes:
        assert self._socket is not None
        while len(self._bytes) < count:
            more, fds, _flags, _peer = socket.recv_fds(self._socket, _MOST_BYTES, 4, socket.MSG_CMSG_CLOEXEC)
            self._fds += fds
            if not more:
                raise _Left("the coordinator closed the connection")
            self._bytes += more
        taken, self._bytes = self._bytes[:count], self._bytes[count:]
        return taken


def drop_held(title: str) -> bool:
    """Makes the coordinator release the memory with this readable key; returns whether it held any."""
    if not os.environ.get("PERGPU_SHARE"):
        return _drop_by_program(title)
    with Visit(Wish("", title, "user", False)) as visit:
        try:
            visit._socket = _connected()
            return bool(visit._ask({"op": "drop", "what": title})["names"])
        except (OSError, _Silence):
            return False


def _drop_by_program(title: str) -> bool:
    """Drops it outside of a job, through the program, which knows its coordinator."""
    from .._program_calls import CommandFailed, ask_json

    try:
        return bool(ask_json(["share", "drop", "--", title])["dropped"])
    except (CommandFailed, OSError):  # nobody holds it, or there is no program
        return False


def _connected() -> socket.socket:
    path = os.environ.get("PERGPU_SHARE")
    if not path:
        raise _Silence("there is no coordinator (PERGPU_SHARE is not set)")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    folder = -1
    try:
        connection.settimeout(_PATIENCE_S)
        try:
            # A path may be longer than the 107 bytes that fit into the address of a socket.
            folder = os.open(os.path.dirname(path) or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            connection.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
        except OSError as error:
            kind = _Left if isinstance(error, ConnectionRefusedError) else _Silence
            raise kind(f"the coordinator does not answer at {path}: {error.strerror or error}") from None
        return connection
    except BaseException:
        connection.close()
        raise
    finally:
        if folder >= 0:
            os.close(folder)
