"""report(): writes lines of the metrics file, cheaply enough to call in every training step.

A call puts the values into a queue.  A thread writes the queue four times a second, each batch with one
O_APPEND write.  So if a process is killed, the file lacks its reports of the last quarter of a second (more,
if a C function keeps the interpreter lock for longer).  Several processes of a job may report into one file.
The newest values are also in shared memory as soon as a call returns (_table.py).  There other jobs of the
sweep see them, and they survive a kill.

While the thread lives, only it writes: so an exception that a signal handler raises in the main thread can't
interrupt a write.  To be sure that values are written, notify the thread and wait.  The queue and the event
are safe to use in a signal handler at any moment.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from . import _private
from ._table import put_of_job

_PAUSE_S = 0.25
_PATIENCE_S = 30.0  # for the thread, where the disk is slow
_MOST_UNWRITTEN = 8 << 20  # bytes, where the file cannot be written
_PLAIN = frozenset((int, float, str, bool))


class _Writer:
    def __init__(self) -> None:
        self._lock = threading.RLock()  # of what follows, but for the two queues
        self._complained = False
        self._reset()

    def _reset(self) -> None:
        self._waiting: deque[Mapping[str, Any]] = deque()
        self._asked: deque[threading.Lock] = deque()  # released when all from before is written
        self._thread: threading.Thread | None = None
        self._bell = (-1, -1)
        self._is_over = False
        self._is_writing = False
        self._text = b""  # of `_waiting`, not written yet
        self._is_amid = False  # the file ends within a line of ours
        self._put: Callable[[dict[str, Any]], object] | None = None  # into the table
        self._has_asked_for_table = False

    def add(self, values: dict[str, Any]) -> None:
        self._waiting.append(values)
        if self._thread is None:
            self._begin()
        if self._put is not None:
            self._put(values)

    def flush(self) -> None:
        thread = self._thread
        if thread is None or not thread.is_alive() or thread is threading.current_thread():
            self._write()
            return
        done = threading.Lock()
        done.acquire()
        self._asked.append(done)
        self._ring()
        done.acquire(timeout=_PATIENCE_S)

    def end(self) -> None:
        """From now on, report() writes at once: no thread can be started any more."""
        thread = self._thread
        self._is_over = True
        if thread is not None and thread.is_alive():
            self._ring()
            thread.join(_PATIENCE_S)
        self._thread = None
        self._write()

    def forked(self) -> None:
        """In the child: queued values belong to the parent, and there is no thread here."""
        for fd in self._bell:
            if fd >= 0:
                os.close(fd)
        self._lock = threading.RLock()
        self._reset()

    def _ring(self) -> None:
        try:
            os.write(self._bell[1], b"x")
        except BlockingIOError:
            pass  # it rings already

    def _begin(self) -> None:
        if not os.environ.get("PERGPU_METRICS"):
            self._waiting.clear()
            return
        with self._lock:
            if self._thread is not None:
                return
            if not self._has_asked_for_table:
                self._has_asked_for_table = True
                self._put = put_of_job()
            if self._is_over:
                self._write()
                return
            self._bell = os.pipe()
            os.set_blocking(self._bell[1], False)
            thread = threading.Thread(target=self._run, name="pergpu.report", daemon=True)
            self._thread = thread
            # Its children that were forked do not end as programs do.
            util = sys.modules.get("multiprocessing.util")
            if util is not None:
                util.Finalize(None, self.flush, exitpriority=0)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is ending, or there are too many
                self._is_over = True
                self._thread = None
                self._write()

    def _run(self) -> None:
        bell = self._bell[0]
        while True:
            if select.select([bell], [], [], _PAUSE_S)[0]:
                os.read(bell, 4096)
            is_over = self._is_over
            asked = [self._asked.popleft() for _ in range(len(self._asked))]
            try:
                self._write()
            finally:
                for done in asked:
                    done.release()
            if is_over:
                return

    def _write(self) -> None:
        with self._lock:
            if self._is_writing:  # a signal came in the middle, and its handler asks for the same
                return
            self._is_writing = True
            try:
                lines = [self._line(self._waiting.popleft()) for _ in range(len(self._waiting))]
                self._text += "".join(lines).encode(errors="replace")
                path = os.environ.get("PERGPU_METRICS")
                if self._text and path:
                    self._append(path)
            finally:
                self._is_writing = False

    def _append(self, path: str) -> None:
        try:
            fd = _private.open_by_path(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            try:
                while self._text:
                    count = os.write(fd, self._text)
                    self._is_amid = self._text[count - 1 : count] != b"\n"
                    self._text = self._text[count:]
            finally:
                os.close(fd)
        except OSError as error:
            self._complain(f"{path}: {error.strerror}")
            if len(self._text) > _MOST_UNWRITTEN:
                self._text = b"\n" if self._is_amid else b""

    def _line(self, values: Mapping[str, Any]) -> str:
        finite = {
            name: repr(value) if type(value) is float and not math.isfinite(value) else value
            for name, value in values.items()
        }
        try:
            return json.dumps(finite, ensure_ascii=False) + "\n"
        except ValueError as error:  # a number of thousands of digits
            self._complain(f"{', '.join(values)}: {error}")
            return ""

    def _complain(self, words: str) -> None:
        """Warns once: metrics that can't be written are no reason to end a night's training."""
        if not self._complained:
            self._complained = True
            try:
                sys.stderr.write(f"pergpu.report: {words}; metrics may be lost\n")
                sys.stderr.flush()
            except (OSError, ValueError, AttributeError):
                pass


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    out = {}
    for name, value in values.items():
        if not isinstance(name, str):
            raise TypeError(f"report: names must be strings, not {name!r}")
        out[name] = value if type(value) in _PLAIN else _scalar(name, value)
    return out


def _scalar(name: str, value: Any) -> Any:
    """A single number of numpy or torch, as item() returns it."""
    item = getattr(value, "item", None)
    if item is not None:
        try:
            value = item()
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"report: {name} is not a single number: {error}") from None
    if isinstance(value, str):
        return str.__str__(value)  # of an enumerator its value
    for kind in (bool, int, float):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"report: {name} is {type(value).__name__}; expected a number or a string")


_writer = _Writer()
atexit.register(_writer.end)
os.register_at_fork(after_in_child=_writer.forked)


def report(values: Mapping[str, Any] | None = None, /, **named: Any) -> None:
    """Appends one line of values to the job's metrics file, within a quarter of a second.  Other processes
    that call metrics() or best() see its numbers at once.

    >>> report(step=100, loss=0.41)
    >>> report({"val/loss": 0.43}, step=100)

    A value is a number, a string, or an object that holds one number (`numpy.float32`, a tensor of one
    element).  NaN and the infinities are written as strings ("nan", "inf", "-inf"), because JSON has no
    such numbers.  TypeError: any other value; then nothing is reported.  Outside of a job, values are
    checked and dropped.
    """
    if values is not None:
        named = _plain({**values, **named})
    else:
        for value in named.values():
            if type(value) not in _PLAIN:
                named = _plain(named)
                break
    _writer.add(named)


def flush() -> None:
    """Writes reported values now.  Call it before os._exit() and os.exec…()."""
    _writer.flush()
