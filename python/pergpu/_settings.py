"""The settings that all calls of one sweep have in common.

A sweep has one definition of its step.  The last submission sets timeout, memory, retries and similar settings
for all unfinished jobs.  So the settings are stored with the calls.  As long as there are such jobs, an
executor with other settings is refused.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import _private
from ._calls_folder import CallsFolder
from ._future import ENDED
from ._known import SWEEP_ID, jobs_of, settings_file

# What makes a job the one that it is: jobs of other ones can never stand in one sweep.
_FIXED = ("reuse", "env", "python", "folder")


class OtherSettings(Exception):
    """The sweep has calls with other settings; the message lists them."""


class Settings:
    """`sweep`: its folder.  `values`: JSON types, by argument names of an Executor."""

    def __init__(self, sweep: str, values: Mapping[str, Any], folder: CallsFolder) -> None:
        self._sweep = sweep
        self._folder = folder
        self._values = json.loads(json.dumps({name: one for name, one in values.items() if one is not None}, default=str))

    def check(self) -> None:
        """OtherSettings: the sweep has calls that these would change."""
        with contextlib.suppress(OSError, ValueError):
            with open(self._opened(self._folder.found(), os.O_RDONLY), encoding="utf-8") as file:
                known, _ = _read(file.read())
            self._compare(known)

    @contextlib.contextmanager
    def agreed(self) -> Iterator[Callable[[int], None]]:
        """Locks the settings: no other process submits inside the block, which gets a setter for the sweep's id.
        OtherSettings, as check()."""
        with open(self._opened(self._folder.made(), os.O_RDWR | os.O_CREAT | os.O_APPEND), "a+", encoding="utf-8") as file:

            def write(sweep_id: int | None) -> None:
                file.truncate(0)
                file.write(json.dumps(self._values if sweep_id is None else {**self._values, SWEEP_ID: sweep_id}))
                file.flush()

            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            known, known_id = _read(file.read())
            if known != self._values:
                if known is not None:
                    self._compare(known)
                write(known_id)
            yield lambda sweep_id: write(sweep_id) if sweep_id != known_id else None

    def _opened(self, at: int, flags: int) -> int:
        return _private.open_regular(at, settings_file(self._sweep), flags)

    def _compare(self, known: Any) -> None:
        if not isinstance(known, dict):
            return
        others = sorted(name for name in {*known, *self._values} if known.get(name) != self._values.get(name))
        if not others:
            return
        never = [name for name in others if name in _FIXED]
        jobs = jobs_of(self._sweep)
        open_jobs = [job for job in jobs if job["state"] not in ENDED]
        if not (jobs if never else open_jobs):
            return
        differences = "; ".join(f"{name} is {_shown(known, name)} there, {_shown(self._values, name)} here" for name in never or others)
        name = os.path.basename(self._sweep)
        if never:
            raise OtherSettings(f"calls named {name!r} already exist with settings that conflict with these: {differences}; choose another name")
        calls = "1 call" if len(open_jobs) == 1 else f"{len(open_jobs)} calls"
        raise OtherSettings(
            f"{calls} named {name!r} would get these settings, too: {differences}; choose another name, or wait until they have ended"
        )


def _read(text: str) -> tuple[Any, int | None]:
    """The settings, and the id of the sweep."""
    try:
        known = json.loads(text)
    except ValueError:
        return None, None
    return known, known.pop(SWEEP_ID, None) if isinstance(known, dict) else None


def _shown(values: Mapping[str, Any], name: str) -> str:
    return repr(values[name]) if name in values else "none"
