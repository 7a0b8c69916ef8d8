"""A job's state as Slurm's states, and its log, as submitit expects them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .. import _private
from .._future import Future

STATES = {
    "queued": "PENDING",
    "held": "PENDING",
    "starting": "RUNNING",
    "running": "RUNNING",
    "stopping": "COMPLETING",
    "done": "COMPLETED",
    "failed": "FAILED",
    "timeout": "TIMEOUT",
    "lost": "NODE_FAIL",
    "cancelled": "CANCELLED",
    "skipped": "CANCELLED",
}


def state_of(future: Future) -> str:
    """The last known data of its job; a call that ended before it was submitted has none."""
    if future.cancelled():
        return "CANCELLED"
    state = "PENDING" if future.outcome is None else STATES.get(future.outcome["state"], "UNKNOWN")
    return "FAILED" if future.done() and state in ("PENDING", "RUNNING", "COMPLETING") else state


def log_of(outcome: Mapping[str, Any] | None) -> str | None:
    """The output of all its attempts, stdout and stderr together; None: no attempt has started."""
    if outcome is None:
        return None
    folder, name = os.path.split(outcome["log"])
    stem, end = os.path.splitext(name)
    paths = [f"{folder}/{stem}.{i}{end}" for i in range(1, max(1, outcome["attempt"]))]
    texts = [text for text in map(_read, [*paths, outcome["log"]]) if text is not None]
    return "".join(texts) if texts else None


def _read(path: str) -> str | None:
    try:
        return _private.read_log(path)
    except FileNotFoundError:
        return None
