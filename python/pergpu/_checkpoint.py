"""The signal that a job gets ahead of its timeout, and of a cancel (`signal` of the sweep file).

It goes to the whole process group.  A child that was forked after the handler was set shares the
handler, and does nothing; so does one that multiprocessing spawned, which runs the main module, and
what is decorated in it, a second time.
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
    """Sets the handler, where this job is to get a signal and has none yet."""
    global _is_handled
    name = os.environ.get("PERGPU_SIGNAL")
    if not name or _is_handled:
        return
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError(
            "the checkpoint signal comes to the main thread: call checkpoint_requested() or "
            "on_checkpoint there first, before other threads ask"
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
    """Whether this is a child of multiprocessing; while it runs the main module it is marked only."""
    process = sys.modules.get("multiprocessing.process")
    if process is None:
        return False
    is_marked = getattr(process.current_process(), "_inheriting", False)
    return bool(is_marked) or process.parent_process() is not None


def checkpoint_requested() -> bool:
    """Whether the signal has come: the job should save its state and requeue().

    From the first call on the signal no longer ends the process, so that call belongs to the
    beginning of the program.  Always False where the step has no `signal`.

        start = load() if saved() else 0
        for step in range(start, steps):
            train(step)
            if pergpu.checkpoint_requested():
                save(step)
                pergpu.requeue()

    RuntimeError: the first call comes from another thread than the main one.
    """
    _handle()
    return _requested


def on_checkpoint(save: Save) -> Save:
    """Calls `save` when the signal has come, and then requeue().  A decorator.

        @pergpu.on_checkpoint
        def save():
            torch.save(model.state_dict(), pergpu.out / "model.pt")

    It is called once, in the main thread, between any two instructions of the program, or while the
    program is blocked in a call such as sleep(): what it saves has to be whole at all times.  It may
    print, log and write files.  Where it is not, ask checkpoint_requested() between two steps
    instead.  Several functions are called in the order in which they were decorated.
    """
    _saves.append(save)
    _handle()
    return save


def requeue() -> NoReturn:
    """Ends the job by exit code 75: it is queued again at no charge, five times at most.

    By SystemExit, as sys.exit() does, so `finally` blocks run; in another thread than the main one the process goes on.
    In a job the process ends also where the SystemExit is swallowed, by `except:`, `finally: return` or a
    `__del__`: then at once, and after ten seconds in any case, or three if the signal has come.  What was printed is written before; the
    functions of atexit are left out.  If it is kept, what the program or the call comes to afterwards doesn't count.
    """
    _ending.end(flush, _requested)
