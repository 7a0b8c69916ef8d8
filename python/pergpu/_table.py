"""The table in shared memory with the newest values of report(): one for the jobs of a sweep.

The first process of a sweep that reports makes the table.  It exists as long as a job of the sweep can run (the
coordinator holds it), or any process has it open.  Values are in it when report() returns, so they outlive a
process that is killed a moment later.  The metrics file is up to a quarter of a second behind, and stays.

A sweep is identified by the folder of its results, which its jobs and outside readers have in common.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from . import _share

_SLOTS = 512  # processes whose values are kept at once

_own: dict[str, _share.MetricsTable] = {}  # of this process's jobs, by folder of the sweep: held from then on
_memories: list[_share.Memory] = []


class Slot(NamedTuple):
    """The metrics of one process of a job."""

    job: int
    attempt: int
    pid: int
    alive: bool
    began_ns: int
    reported_ns: int
    reports: int
    place: str
    """RUN/STEP, as the folder is called."""
    values: dict[str, tuple[tuple[Any, Any], Any, Any]]
    """For each name the last, the least and the greatest, each as (value, step); None if only NaN was reported."""


def folder_of(out: str) -> str:
    """The table of a sweep, by the folder of one of its jobs: SWEEP/RUN/STEP."""
    return os.path.dirname(os.path.dirname(out))


def own_folder() -> str | None:
    """The table of this process's sweep; None: it has none."""
    out = os.environ.get("PERGPU_OUT")
    return folder_of(out) if out and "PERGPU_JOB" in os.environ else None


def put_of_job() -> Callable[[dict[str, Any]], object] | None:
    """Returns a function that puts a report into the table; None: this isn't a job, or there can be no table."""
    folder = own_folder()
    if folder is None:
        return None
    try:
        table = _own.get(folder) or _made(folder)
        place = os.path.relpath(os.environ["PERGPU_OUT"], folder)
        return table.writer(int(os.environ["PERGPU_JOB"]), int(os.environ.get("PERGPU_ATTEMPT", 1)), place).put
    except Exception:  # the file has all of it anyway, and a training is more than its metrics
        return None


def slots_of(folder: str) -> list[Slot]:
    """The metrics of a sweep's processes, if its table still exists."""
    table = _own.get(folder) or _found(folder)
    return [Slot(*one) for one in table.read()] if table else []


def _made(folder: str) -> _share.MetricsTable:
    from . import _share
    from .share._meeting import held_for_sweep, meet

    def make(name: str) -> _share.Memory:
        memory = _share.Memory.create(name, _share.MetricsTable.bytes(_SLOTS))
        _share.MetricsTable(memory.map("shared"), key=folder)
        return memory

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it goes with the last process: nobody asked for more
        memory = meet(
            "metrics",
            folder,
            lambda found: _table_in(found).key == folder,
            make,
            scope=held_for_sweep(),
            title=f"metrics of {os.path.basename(folder)}",
        )
    _memories.append(memory)  # while it is open others can find it
    _own[folder] = _table_in(memory)
    return _own[folder]


class _NotThere(Exception):
    pass


def _found(folder: str) -> _share.MetricsTable | None:
    """The table of jobs, without `keep`: it ends with the last of them."""
    try:
        from .share._meeting import meet
    except ImportError:
        return None

    def make(name: str) -> _share.Memory:
        raise _NotThere

    try:
        memory = meet("metrics", folder, lambda found: _table_in(found).key == folder, make)
    except (_NotThere, OSError):
        return None
    try:
        return _table_in(memory)
    finally:
        memory.close()


def _table_in(memory: _share.Memory) -> _share.MetricsTable:
    from . import _share

    return _share.MetricsTable(memory.map("shared"))
