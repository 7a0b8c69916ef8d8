"""What is said of calls that are held: who waits for them may not know that somebody has to let them go."""

from __future__ import annotations

import threading
import warnings
from typing import Any

from ._future import Backend


class HeldWarning(UserWarning):
    """A call waits until somebody lets it go on: `pergpu hold`, the breaker or a refusal of Slurm's holds
    its job.  The words say which call, why, and the command."""

    __module__ = "pergpu"  # where people know it from


class HeldJobs:
    """Which jobs of an executor are held.  It warns of each reason once, as long as one is held for it:
    a hold of a whole sweep is one warning."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reasons: dict[int, str] = {}

    def see(self, job: dict[str, Any], what: str, backend: Backend) -> None:
        """The job stands so.  `what` it is, for people.  Where a filter makes an error of the warning all
        calls of `backend` fail: nobody is there to catch it."""
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
            f"{what} (job {job['id']}) is held: {job['reason']}; `pergpu release {job['id']}` lets it go on, "
            f"`pergpu release {job['sweep']}` all that is held with it"
        )
        try:
            # Not warn(): this thread runs no line of the program, and a second hold is to be told like the first.
            warnings.warn_explicit(words, HeldWarning, "pergpu", 0)
        except HeldWarning as error:
            backend.break_down(words, error)
