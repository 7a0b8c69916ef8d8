"""Calls of earlier runs that equal calls of this one: their results are used, or waited for."""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Any

from . import _payload
from ._future import ENDED
from ._known import exported_of


class Earlier:
    """The calls of a sweep at the time of the first take()."""

    def __init__(self, sweep: str) -> None:
        """`sweep`: its folder."""
        self._sweep = sweep
        self._lock = threading.Lock()
        self._jobs: dict[str, deque[dict[str, Any]]] | None = None

    def take(self, digest: str | None) -> dict[str, Any] | None:
        """A job of an equal call that has returned, waits or runs.  Each job is used once, so N equal calls of a run
        stay N calls.  CommandFailed: the program can't be asked."""
        if digest is None:
            return None
        with self._lock:
            if self._jobs is None:
                self._jobs = self._found()
            jobs = self._jobs.get(digest)
            return jobs.popleft() if jobs else None

    def _found(self) -> dict[str, deque[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        for job in exported_of(self._sweep):
            if job["step"] != "call":
                continue
            digest = self._digest_of(job)
            if digest is not None and (job["state"] not in ENDED or _has_returned(job)):
                found.setdefault(digest, []).append(job)
        # What has returned comes first: it costs nothing to take that.
        return {digest: deque(sorted(jobs, key=lambda job: (job["state"] not in ENDED, job["id"]))) for digest, jobs in found.items()}

    def _digest_of(self, job: dict[str, Any]) -> str | None:
        try:
            head = _payload.Payload(f"{self._sweep}/_calls/{job['params']['number']}").head
        except (OSError, ValueError, KeyError, TypeError):  # it was cleaned, or is of another version
            return None
        digest = head.get("digest")
        return digest if isinstance(digest, str) else None


def _has_returned(job: dict[str, Any]) -> bool:
    try:
        head = _payload.Payload(os.path.join(job["out"], "result")).head
    except (OSError, _payload.NotAPayload):
        return False
    return head.get("ok") is True and head.get("attempt") == job["attempt"]
