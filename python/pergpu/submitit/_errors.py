"""The exceptions of submitit's jobs."""

from __future__ import annotations


class UncompletedJobError(RuntimeError):
    """A job did not complete: it was killed, cancelled, or ran out of time or memory."""

    __module__ = "pergpu.submitit"  # where people know it from


class FailedJobError(UncompletedJobError):
    """The function raised an exception: its traceback is the message, the exception is the cause."""

    __module__ = "pergpu.submitit"
