"""Ends a process whose state is saved with exit code 75, even if the SystemExit is lost.

A handler's exception is raised in the code that runs at that moment.  A `__del__`, a weak reference's
callback, a bare `except:` or a `finally: return` swallows it.  The program would then continue although its
state was saved.  The interpreter drops an exception once it's handled, and dropping this one ends the
process.  Code may also keep the exception, in a list or in a variable of a traced-back frame.  Then the
process ends with 75 where a call would report its result, and at the end of the program.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

REQUEUE = 75  # exit code: start this job again, at no charge
LIMIT_S = 10.0  # for `finally` blocks, other threads and functions of atexit
AFTER_SIGNAL_S = 3.0  # the same once the signal has come: its lead isn't known here, and may be 5 s
_FLUSH_S = 1.0


class _Requeue(SystemExit):
    """Its last reference is dropped when the exception was swallowed, or at the end of the program."""

    def __del__(self) -> None:
        if _owner != os.getpid() or sys.is_finalizing():
            return
        swallowed_in = _frame_above()
        if swallowed_in is None and threading.get_ident() == threading.main_thread().ident:
            _finish()
        where = "" if swallowed_in is None else f" in {swallowed_in.f_code.co_filename}:{swallowed_in.f_lineno}"
        _end_now(f"the SystemExit of requeue() was swallowed{where}")


_owner = 0  # pid of the process that is to end
_is_finishing = False


def end(flush: Callable[[], None], is_signaled: bool = False) -> NoReturn:
    """Raises SystemExit with 75.  In the main thread of a job the process ends with that in any case, after at most
    LIMIT_S, or AFTER_SIGNAL_S.  `flush` writes reported values."""
    global _owner
    flush()
    is_job = "PERGPU_JOB" in os.environ or "PERGPU_SIGNAL" in os.environ
    if not is_job or threading.current_thread() is not threading.main_thread():
        raise SystemExit(REQUEUE)
    _replace_hook()
    if _owner != os.getpid():
        _owner = os.getpid()
        atexit.register(_at_exit)
        _watch(flush, min(LIMIT_S, AFTER_SIGNAL_S) if is_signaled else LIMIT_S)
    raise _Requeue(REQUEUE)


def end_if_promised(what: str) -> None:
    """Call this where the process should have ended, after a requeue; `what` names the place."""
    if _owner == os.getpid():
        _say(f"{what} after requeue(); the process ends here, with exit code {REQUEUE}")
        _finish()


def _at_exit() -> None:
    """The program has ended by itself, or by another SystemExit."""
    if _owner == os.getpid() and not _is_finishing:
        _finish()


def _frame_above() -> Any:
    """The frame that dropped the exception; None: the program has ended."""
    try:
        return sys._getframe(2)
    except ValueError:
        return None


def _replace_hook() -> None:
    """An exception that replaces the SystemExit, in a `finally`, is printed and does not change the exit code."""
    before = sys.excepthook

    def hook(kind: Any, error: Any, trace: Any) -> None:
        before(kind, error, trace)
        _finish()

    sys.excepthook = hook


def _watch(flush: Callable[[], None], limit_s: float) -> None:
    def run() -> None:
        time.sleep(limit_s)
        flush()
        _end_now(f"the process has not ended {limit_s:g} s after requeue()")

    try:
        threading.Thread(target=run, name="pergpu-requeue", daemon=True).start()
    except RuntimeError:  # no more threads
        pass


def _finish() -> NoReturn:
    """Ends as an interpreter does, with the exit code of a requeue."""
    global _is_finishing
    _is_finishing = True
    for step in (getattr(threading, "_shutdown", None), getattr(atexit, "_run_exitfuncs", None)):
        try:
            if step is not None:
                step()
        except BaseException as error:
            _say(f"at the end: {type(error).__name__}: {error}")
    _flush_streams()
    os._exit(REQUEUE)


def _end_now(why: str) -> NoReturn:
    """Skips `finally` blocks and atexit functions.  Another thread flushes: this one may be inside a write."""
    _say(f"{why}; the process ends here, with exit code {REQUEUE}")
    try:
        flushing = threading.Thread(target=_flush_streams, daemon=True)
        flushing.start()
        flushing.join(_FLUSH_S)
    except BaseException:
        pass
    os._exit(REQUEUE)


def _say(words: str) -> None:
    """Writes a line to the log, wherever sys.stderr goes."""
    try:
        os.write(2, f"pergpu: {words}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        pass


def _flush_streams() -> None:
    logging = sys.modules.get("logging")
    handlers = [reference() for reference in getattr(logging, "_handlerList", ())]
    for stream in (*handlers, sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:  # closed, replaced, or gone
            pass
