"""Signal handlers that may print, log and write files.

Python runs a signal handler between two instructions, but also inside a call that a signal interrupts.  If
that call is a write to stdout, a print() in the handler fails with "reentrant call".  So this handler only
sets trace functions, which Python calls before the next instruction of each running function.  While the
program is blocked in a call there is no next instruction.  A thread then repeats the signal, and the action
runs inside that call, unless the call is a write to stdout or stderr.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

_BLOCKED_S = 0.05  # no instruction for this long: the main thread is in a call


class DeferredHandler:
    """For signal.signal(): runs `act(number, frame)` once, in the main thread.  Later signals do nothing.

    Exceptions of `act` reach the interrupted code, as from any handler.
    """

    def __init__(self, act: Callable[[int, FrameType | None], object]) -> None:
        self._act = act
        self._is_pending = False
        self._is_run = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self._is_pending:
            self._is_pending = True
            self._defer(number, frame)
        elif not self._is_run and not _is_writing():
            self._run(number, frame)

    def _defer(self, number: int, frame: FrameType | None) -> None:
        def trace(frame: FrameType, event: str, argument: object) -> Any:
            if not self._is_run:
                self._run(number, frame)
            return trace

        def repeat() -> None:
            main = threading.main_thread().ident
            while main is not None:
                time.sleep(_BLOCKED_S)
                if self._is_run:
                    break
                signal.pthread_kill(main, number)

        try:
            _thread.start_new_thread(repeat, ())
        except RuntimeError:  # no more threads, or the interpreter is shutting down
            return self._run(number, frame)
        while frame is not None:
            frame.f_trace_opcodes = True
            frame.f_trace = trace
            frame = frame.f_back
        sys.settrace(lambda *_: None)  # switches tracing on; new functions are not traced

    def _run(self, number: int, frame: FrameType | None) -> None:
        self._is_run = True
        sys.settrace(None)
        self._act(number, frame)


def _is_writing() -> bool:
    """Whether this thread is inside a write to stdout or stderr."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.buffer.write(b"")
        except RuntimeError:  # reentrant call
            return True
        except (AttributeError, OSError, ValueError):  # replaced or closed
            pass
    return False
