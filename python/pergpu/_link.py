"""The coordinator's stream of a sweep's job states (src/api/snapshot.h, op `watch`), read by a
thread.  If the coordinator goes away, the thread connects to the next one."""

from __future__ import annotations

import io
import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from . import __version__
from ._program_calls import CommandFailed, ask_json

_TRIES = 20
_LONGEST_PAUSE = 5.0  # seconds
_STOPPED = "the coordinator was stopped"
_HELLO = {"hello": 1, "version": __version__}


class Refused(RuntimeError):
    """The coordinator has answered with a refusal."""


class _StopNotice:
    """Reports a stop to the program, once however many links wait for its end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_told = False

    def tell(self, words: str) -> None:
        with self._lock:
            if self._is_told:
                return
            self._is_told = True
        try:
            print(words, file=sys.stderr, flush=True)
        except (OSError, ValueError, AttributeError):  # closed, or replaced
            pass

    def over(self) -> None:
        """A coordinator answers again: the next stop is another one."""
        with self._lock:
            self._is_told = False


_stop_notice = _StopNotice()


class Link:
    """Calls `on_job` with each job of the sweep (JobSnapshot as JSON has it): its first state, and every
    change, also of jobs that are added later.  Calls `on_lost` once, with the reason, if no coordinator
    can be reached for a minute.  Both run in this object's thread.

    `sweep_id` None: follow() sets it later.  At the end of an interpreter no thread can be started any
    more, so submit() starts this thread, too."""

    def __init__(
        self,
        sweep_id: int | None,
        on_job: Callable[[dict[str, Any]], None],
        on_lost: Callable[[str], None],
    ) -> None:
        self._sweep_id = sweep_id
        self._on_job = on_job
        self._on_lost = on_lost
        self._closed = threading.Event()
        self._told = threading.Event()
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._has_begun = False
        self._thread = threading.Thread(target=self._run, name="pergpu-link", daemon=True)
        if sweep_id is not None:
            self._told.set()
        self._thread.start()

    def follow(self, sweep_id: int) -> None:
        """Sets the sweep.  May be called more than once."""
        self._sweep_id = sweep_id
        self._told.set()

    def close(self) -> None:
        """Declares that no more calls will begin.  May be called from `on_job`, and more than once."""
        self._closed.set()
        self._told.set()
        with self._lock:
            if self._socket is not None:
                try:
                    self._socket.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def join(self) -> None:
        """Waits until the thread has ended; not in the thread itself."""
        if not self.is_here():
            self._thread.join()

    def is_here(self) -> bool:
        """Whether the caller runs in this object's thread."""
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        try:
            self._follow()
        except BaseException as error:  # SystemExit, of somebody's callback: the others must not wait for ever
            self._on_lost(repr(error))
            raise
        finally:
            self._on_job = self._on_lost = _forget  # they know who made this
            with self._lock:
                if self._socket is not None:
                    self._socket.close()

    def _follow(self) -> None:
        self._told.wait()
        failed = 0
        while not self._closed.is_set():
            try:
                with self._connected() as stream:
                    for line in stream:
                        failed = 0
                        self._take(json.loads(line))
                why = "the coordinator closed the connection"
            except Refused as error:
                return self._on_lost(str(error))
            except (OSError, ValueError, CommandFailed) as error:
                why = str(error)
            if _STOPPED in why:  # somebody has: the next command that is typed starts one
                _stop_notice.tell(why)
                self._closed.wait(_LONGEST_PAUSE)
                continue
            failed += 1
            if failed == _TRIES:
                return self._on_lost(why)
            self._closed.wait(min(0.05 * 2**failed, _LONGEST_PAUSE) if failed > 1 else 0)

    def _connected(self) -> io.BufferedReader:
        """Connects to the coordinator, and starts one if there is none, but not again after a stop."""
        unless = ["--unless-stopped"] if self._has_begun else []
        place = ask_json(["coordinator", "start", *unless])["socket"]
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as ours:
            # A path may be longer than the 107 bytes that fit into the address of a socket.
            folder = os.open(os.path.dirname(place), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                ours.connect(f"/proc/self/fd/{folder}/{os.path.basename(place)}")
            finally:
                os.close(folder)
            with self._lock:
                if self._closed.is_set():
                    raise OSError("it is closed")
                self._socket = ours.dup()
            stream = io.BufferedReader(ours.makefile("rb", buffering=0), 1 << 20)
        try:
            watch = {"op": "watch", "sweep_id": self._sweep_id, "grows": True, "without_runs": True}
            self._socket.sendall(f"{json.dumps(_HELLO)}\n{json.dumps(watch)}\n".encode())
            self._take(json.loads(stream.readline() or "{}"))
            self._has_begun = True
            _stop_notice.over()
            return stream
        except BaseException:
            stream.close()
            raise

    def _take(self, message: dict[str, Any]) -> None:
        if message.get("ok") is False:
            raise Refused(message.get("error", "the coordinator has refused"))
        data = message.get("data", message)
        if self._closed.is_set():
            return
        for job in data.get("jobs", ()):
            self._on_job(job)
        if data.get("event") == "job":
            self._on_job(data["job"])


def _forget(what: Any) -> None:
    pass
