"""Looks up the sweep of a folder.

A sweep's name alone isn't enough: sweeps of other folders may have the same name.  So the sweep's id is stored
with its calls and their settings (_settings.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from . import _private
from ._program_calls import CommandFailed, ask, ask_json

SWEEP_ID = "sweep_id"  # in the file of the settings
_MISTAKE = 2  # exit code; of a name alone: several sweeps have it
NOTHING = 4  # exit code: nothing of that name

Job = dict[str, Any]


def settings_file(sweep: str) -> str:
    """`sweep`: its folder."""
    return sweep + "/_calls/settings.json"


def jobs_of(sweep: str) -> list[Job]:
    """As `ps` reports them; empty: this folder has no sweep.  CommandFailed: the query failed."""
    return _in_folder(sweep, _listed)


def exported_of(sweep: str) -> list[Job]:
    """As `export` reports them."""
    return _in_folder(sweep, exported)


def exported(*names: str) -> list[Job]:
    """CommandFailed: no jobs have these names."""
    return [json.loads(line) for line in ask(["export", "--jsonl", *names]).split("\n") if line]


def _listed(*names: str) -> list[Job]:
    jobs: list[Job] = ask_json(["ps", "-a", *names])["jobs"]
    return jobs


def _in_folder(sweep: str, ask_for: Callable[..., list[Job]]) -> list[Job]:
    name = os.path.basename(sweep)
    known = _sweep_id(sweep)
    for one in (name,) if known is None else (f"{name}@{known}", name):  # in another home it has another id
        try:
            jobs = _below(sweep, ask_for(one))
        except CommandFailed as error:
            if error.code == NOTHING:
                continue
            if error.code != _MISTAKE:
                raise
            ids = sorted({job["sweep_id"] for job in _below(sweep, _listed())})
            jobs = _below(sweep, ask_for(*(f"{name}@{i}" for i in ids))) if ids else []
        if jobs:
            return jobs
    return []


def _sweep_id(sweep: str) -> int | None:
    try:
        with open(_private.open_record(settings_file(sweep)), encoding="utf-8") as file:
            known = json.load(file)[SWEEP_ID]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return known if isinstance(known, int) else None


def _below(sweep: str, jobs: list[Job]) -> list[Job]:
    below = os.path.realpath(sweep) + os.sep
    return [job for job in jobs if os.path.realpath(job["out"]).startswith(below)]
