"""The executors behind one submitit executor: one for each set of parameters.

Calls of one executor are rows of one sweep, and all rows of a sweep have the same keys; changed parameters
start the next sweep.

Programs with submitit end after they submit, and the jobs continue.  So nothing here waits at the
end of the interpreter; a submit returns when the coordinator has the call.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _pool
from .._executor import Executor
from .._future import Future
from ._parameters import keys_of

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class Pools:
    """`folder`: submitit's; the sweeps are in it, or above it if its path contains a place for job ids."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.root = root_of(folder)
        self._pools: dict[str, Executor] = {}

    def of(self, parameters: Mapping[str, Any], signal: str = "") -> Executor:
        """The executor for these parameters.  CommandFailed: a value is wrong; the message says which."""
        keys = keys_of(parameters, signal)
        name = parameters.get("name", "submitit")
        known = json.dumps([name, keys], sort_keys=True, default=repr)
        if known not in self._pools:
            self._pools[known] = Executor(name=_name(name, self.root), out=self.root, **keys)
        return self._pools[known]

    def submit(self, parameters: Mapping[str, Any], calls: Sequence[Call], signal: str = "") -> list[Future]:
        """Queues all calls.  PicklingError: one of them can't be sent, and none is queued that has not
        started.  BrokenExecutor: no coordinator can be reached."""
        pool = self.of(parameters, signal)
        futures: list[Future] = []
        for function, args, kwargs in calls:
            future = pool.submit(function, *args, **kwargs)
            if future.number < 0:
                for other in futures:
                    other.cancel()
                future.result()
            futures.append(future)
        _pool.running.discard(pool._calls)
        for future in futures[-1:]:
            try:
                future.job
            except RuntimeError:
                future.result(0)
                raise
        return futures


def root_of(folder: str | os.PathLike[str]) -> str:
    """The folder without the job id's placeholder: each job has a separate folder here."""
    parts = os.path.abspath(os.path.expanduser(os.fspath(folder))).split(os.sep)
    fixed = next((i for i, part in enumerate(parts) if re.search("%[jtAa]", part)), len(parts))
    return os.sep.join(parts[:fixed]) or os.sep


def _name(label: str, root: str) -> str:
    """A name of a sweep that does not exist yet."""
    label = re.sub(r"[^A-Za-z0-9_.+-]", "_", label).lstrip("-._")[:40] or "submitit"
    name = first = f"{label}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    count = 1
    while name in _taken or os.path.exists(os.path.join(root, name)):
        count += 1
        name = f"{first}-{count}"
    _taken.add(name)
    return name


_taken: set[str] = set()
