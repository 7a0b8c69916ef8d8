"""The data that a function can read about its job, by submitit's names."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path


class JobEnvironment:
    """One process, one node: rank 0 of 1.  RuntimeError: this process isn't in a job."""

    cluster = "pergpu"
    num_tasks = num_nodes = 1
    node = global_rank = local_rank = 0
    array_job_id = array_task_id = None

    def __init__(self) -> None:
        if not self.activated():
            raise RuntimeError("JobEnvironment describes a job, and this process doesn't belong to a job of pergpu")

    @staticmethod
    def activated() -> bool:
        """Whether this process belongs to a job."""
        return "PERGPU_JOB" in os.environ

    @property
    def job_id(self) -> str:
        return os.environ["PERGPU_JOB"]

    raw_job_id = job_id

    @property
    def folder(self) -> Path:
        """The job's folder, which stays between its attempts."""
        return Path(os.environ["PERGPU_OUT"])

    @property
    def hostname(self) -> str:
        return socket.gethostname()

    @property
    def hostnames(self) -> Sequence[str]:
        return [self.hostname]

    def __repr__(self) -> str:
        return f"JobEnvironment(job_id={self.job_id}, hostname={self.hostname}, local_rank=0(1), node=0(1), global_rank=0(1))"
