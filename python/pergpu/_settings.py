"""The settings that all calls of one sweep have in common.

A sweep has one definition of its step.  The last hand-over decides about timeout, memory, retries and the like, for all
jobs that haven't ended.  So the settings are kept beside the calls.  An executor with other settings is refused
while there are such jobs.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from ._future import ENDED
from ._program_calls import CommandFailed, ask_json

# What makes a job the one that it is: jobs of other ones can never stand in one sweep.
_FIXED = ("reuse", "env", "python", "folder")


class OtherSettings(Exception):
    """The sweep has calls under other settings; the words say which."""


class Settings:
    """`sweep`: its folder.  `values`: JSON's types, by names that the user of an Executor knows."""

    def __init__(self, sweep: str, values: Mapping[str, Any]) -> None:
        self._sweep = sweep
        self._values = json.loads(json.dumps({name: one for name, one in values.items() if one is not None}, default=str))

    def check(self) -> None:
        """OtherSettings: the sweep has calls that these would change."""
        with contextlib.suppress(OSError, ValueError):
            with open(self._path(), encoding="utf-8") as file:
                self._compare(json.load(file))

    @contextlib.contextmanager
    def agreed(self) -> Iterator[None]:
        """Meanwhile nobody else hands over.  OtherSettings, as check()."""
        with open(self._path(), "a+", encoding="utf-8") as file:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            known = _read(file.read())
            if known != self._values:
                if known is not None:
                    self._compare(known)
                file.truncate(0)
                file.write(json.dumps(self._values))
                file.flush()
            yield

    def _path(self) -> str:
        return self._sweep + "/_calls/settings.json"

    def _compare(self, known: Any) -> None:
        if not isinstance(known, dict):
            return
        others = sorted(name for name in {*known, *self._values} if known.get(name) != self._values.get(name))
        if not others:
            return
        never = [name for name in others if name in _FIXED]
        jobs = self._jobs()
        open_jobs = [job for job in jobs if job["state"] not in ENDED]
        if not (jobs if never else open_jobs):
            return
        told = "; ".join(f"{name} is {_shown(known, name)} there, {_shown(self._values, name)} here" for name in never or others)
        name = os.path.basename(self._sweep)
        if never:
            raise OtherSettings(f"there are calls named {name!r} already, with which these can't stand: {told}; choose another name")
        calls = "1 call" if len(open_jobs) == 1 else f"{len(open_jobs)} calls"
        raise OtherSettings(
            f"{calls} named {name!r} would get these settings, too: {told}; choose another name, or wait until they have ended"
        )

    def _jobs(self) -> list[dict[str, Any]]:
        """Of the sweep, as they stand."""
        try:
            jobs: list[dict[str, Any]] = ask_json(["ps", "-a", os.path.basename(self._sweep)])["jobs"]
        except CommandFailed:  # nothing of that name
            return []
        below = os.path.realpath(self._sweep) + os.sep
        return [job for job in jobs if os.path.realpath(job["out"]).startswith(below)]


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _shown(values: Mapping[str, Any], name: str) -> str:
    return repr(values[name]) if name in values else "none"
