"""The parts of `submitit.helpers` that make sense on one machine."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator, Sequence
from typing import Any

from ._job import Job
from ._resume import Checkpointable, DelayedSubmission

__all__ = ["Checkpointable", "DelayedSubmission", "as_completed"]


def as_completed(
    jobs: Sequence[Job[Any]], timeout: float | None = None, poll_frequency: float = 0
) -> Iterator[Job[Any]]:
    """Yields each job when it has ended.  It doesn't poll, so `poll_frequency` exists for
    compatibility.  TimeoutError: not all of them within `timeout` seconds."""
    by_future = {job.future: job for job in jobs}
    for future in concurrent.futures.as_completed(by_future, timeout):
        yield by_future[future]  # type: ignore[index]  # it is one of ours
