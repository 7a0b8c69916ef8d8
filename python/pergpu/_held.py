"""Warnings about held calls: a program that waits for one may not know that it must be released."""

from __future__ import annotations

import threading
import warnings
from typing import Any

from ._future import Backend


class HeldWarning(UserWarning):
    """A call waits until you release it: `pergpu hold`, the circuit breaker or a refusal of Slurm's holds
    its job.  The message has the call, the reason, and the command."""

    __module__ = "pergpu"  # where people know it from


class HeldJobs:
    """The held jobs of an executor.  Warns once for each reason, as long as a job is held for it: a hold of a
    whole sweep is one warning."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reasons: dict[int, str] = {}

    def see(self, job: dict[str, Any], what: str, backend: Backend) -> None:
        """Takes the job's state.  `what` is the call's text.  If a filter turns the warning into an error, all calls
        of `backend` fail, since no code could catch it."""
        with self._lock:
            before = self._reasons.pop(job["id"], None)
            if job["state"] != "held":
                return
            # What the breaker tries next changes while it holds the job for the same reason.
            reason = job["reason"].partition("; held since")[0]
            is_known = reason == before or reason in self._reasons.values()
            self._reasons[job["id"]] = reason
        if is_known:
            return
        words = (
            f"{what} (job {job['id']}) is held: {job['reason']}; `pergpu release {job['id']}` releases it, "
            f"`pergpu release {job['sweep']}` all jobs that are held with it"
        )
        try:
            # Not warn(): this thread runs no line of the program, and a second hold is to be told like the first.
            warnings.warn_explicit(words, HeldWarning, "pergpu", 0)
        except HeldWarning as error:
            backend.break_down(words, error)
