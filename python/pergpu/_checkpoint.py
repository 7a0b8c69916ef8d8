"""The signal that a job gets before its timeout, and before a cancel (`signal` of the sweep file).

The signal goes to the whole process group.  A child forked after the handler was set inherits the handler,
and ignores the signal.  So does a child that multiprocessing spawned, which runs the main module, and its
decorators, a second time.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import NoReturn, TypeVar

from . import _ending
from ._deferred_handler import DeferredHandler
from ._metrics import flush

Save = TypeVar("Save", bound=Callable[[], object])

_is_handled = False
_requested = False
_saves: list[Callable[[], object]] = []  # called when the signal comes, in this order


def _handle() -> None:
    """Sets the handler, if this job gets a signal and has no handler yet."""
    global _is_handled
    name = os.environ.get("PERGPU_SIGNAL")
    if not name or _is_handled:
        return
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError(
            "the checkpoint signal is handled in the main thread: call checkpoint_requested() or "
            "on_checkpoint there first, before other threads call it"
        )
    owner = os.getpid()

    deferred = DeferredHandler(_save_and_requeue)

    def handler(number: int, frame: FrameType | None) -> None:
        global _requested
        if os.getpid() != owner or _is_spawned():
            return
        _requested = True
        if _saves:
            deferred(number, frame)

    signal.signal(signal.Signals["SIG" + name], handler)
    _is_handled = True


def _save_and_requeue(_number: int, _frame: FrameType | None) -> None:
    for save in _saves:
        save()
    requeue()


def _is_spawned() -> bool:
    """Whether this is a child of multiprocessing; while it runs the main module, only a mark shows it."""
    process = sys.modules.get("multiprocessing.process")
    if process is None:
        return False
    is_marked = getattr(process.current_process(), "_inheriting", False)
    return bool(is_marked) or process.parent_process() is not None


def checkpoint_requested() -> bool:
    """Returns True once the signal has come: the job should save its state and call requeue().

    After the first call, the signal no longer ends the process.  So make the first call at the
    beginning of the program.  Always False if the step has no `signal`.

        start = load() if saved() else 0
        for step in range(start, steps):
            train(step)
            if pergpu.checkpoint_requested():
                save(step)
                pergpu.requeue()

    RuntimeError: the first call is not in the main thread.
    """
    _handle()
    return _requested


def on_checkpoint(save: Save) -> Save:
    """Decorator: calls `save` when the signal comes, and then requeue().

        @pergpu.on_checkpoint
        def save():
            torch.save(model.state_dict(), pergpu.out / "model.pt")

    `save` is called once, in the main thread, between any two instructions of the program, or while the
    program is blocked in a call such as sleep().  The state that it saves must be consistent at all times.
    If it isn't, call checkpoint_requested() between two steps instead.  `save` may print, log and write
    files.  Several functions are called in the order in which they were decorated.
    """
    _saves.append(save)
    _handle()
    return save


def requeue() -> NoReturn:
    """Ends the job with exit code 75: it is queued again without using up a retry, at most five times.

    Raises SystemExit, as sys.exit() does, so `finally` blocks run.  In a thread other than the main one,
    the process continues.  In a job, the process ends immediately if `except:`, `finally: return` or a
    `__del__` swallows the SystemExit, and in any case after ten seconds, or three if the signal has come.
    Printed output is flushed first; atexit functions are skipped.  If the program keeps the SystemExit,
    later results of the program or the call don't count.
    """
    _ending.end(flush, _requested)
