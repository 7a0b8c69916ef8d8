"""What jobs of submitit raise."""

from __future__ import annotations


class UncompletedJobError(RuntimeError):
    """A job has not come to its end: it was killed, cancelled, or ran out of time or memory."""

    __module__ = "pergpu.submitit"  # where people know it from


class FailedJobError(UncompletedJobError):
    """The function has raised: its traceback is the message, its exception the cause."""

    __module__ = "pergpu.submitit"
