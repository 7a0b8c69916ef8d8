"""Whether this process belongs to a job, and where the job's files are (docs/jobs.md)."""

from __future__ import annotations

import os
from pathlib import Path


class NotAJob(RuntimeError):
    """The program asked for something that only a job of pergpu has."""

    __module__ = "pergpu"  # where people know it from


def in_job() -> bool:
    """Whether this process belongs to a job of pergpu."""
    return "PERGPU_JOB" in os.environ


def out() -> Path:
    """The job's folder.  NotAJob: there is none."""
    folder = os.environ.get("PERGPU_OUT")
    if folder:
        return Path(folder)
    raise NotAJob(
        "pergpu.out is the folder of a job, and this process doesn't belong to a job: start it with "
        "`pergpu run`, or set PERGPU_OUT to a folder"
    )
