"""The common part of calls in fresh processes (_calls.py) and calls for warm workers (_workers.py): whether
more calls are accepted, and the commands that end jobs."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from typing import Any

from ._holder import Holder
from ._program_calls import ask_json
from ._tidy import Tidy

INTERRUPTED = "its first call was interrupted during its submit: create another executor"  # why it has failed
_NAMED_AT_ONCE = 5_000  # jobs in a command line

# Those that may still have something to hand over or to wait for, when the interpreter ends.
running: weakref.WeakSet[Any] = weakref.WeakSet()


class Pool:
    """Whether calls are accepted.  All of it is changed under `_lock`."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()  # close() may come at any moment: whoever collects garbage calls it
        self._changed = threading.Condition(self._lock)
        self._closed = False
        self._cause: BaseException | None = None
        self.why_broken: str | None = None
        """Why all calls have failed; None: they have not."""
        self.holder: Holder | None = None
        """Keeps the sweep's shared memory; None: not kept."""
        self.tidy: Tidy | None = None
        """None: the files of the calls stay."""
        self.no_result = ""
        """Why a finished call may have no result, readable."""

    def _hold(self) -> None:
        """Call this when the first call has come."""
        if self.holder is not None:
            self.holder.start()

    def _hold_no_longer(self) -> None:
        """Call this when the last call has ended, and no more come."""
        if self.holder is not None:
            self.holder.close()

    def check(self) -> None:
        """RuntimeError: no more calls are accepted.  BrokenExecutor: all calls have failed."""
        if os.getpid() != self._pid:
            raise RuntimeError("this executor belongs to the parent of this forked process: create another one")
        if self.why_broken is not None:
            raise BrokenExecutor(self.why_broken) from self._cause
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")


def cancel(jobs: Sequence[int], *words: str) -> list[int]:
    """Runs `pergpu cancel` with these options; returns the ids of the cancelled jobs."""
    changed: list[int] = []
    for i in range(0, len(jobs), _NAMED_AT_ONCE):
        changed += ask_json(["cancel", *words, *map(str, jobs[i : i + _NAMED_AT_ONCE])])["changed"]
    return changed
