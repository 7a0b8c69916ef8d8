"""How many cores this process may use."""

from __future__ import annotations

import math
import os


def cores(root: str = "/") -> int:
    """The least of: the cores it may run on, the limits of its control groups (v2 and v1), and, in a job of
    pergpu, OMP_NUM_THREADS, which is the job's share.  `root`: of the file system, for tests.
    """
    most = [float(len(os.sched_getaffinity(0))), *_quotas(root)]
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if "PERGPU_JOB" in os.environ and given.isdigit():
        most.append(int(given))
    return max(1, math.ceil(min(most)))


def _quotas(root: str) -> list[float]:
    found = []
    for line in _text(os.path.join(root, "proc/self/cgroup")).splitlines():
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if not controllers:
            mounts = ["sys/fs/cgroup", "sys/fs/cgroup/unified"]
        elif "cpu" in controllers.split(","):
            mounts = ["sys/fs/cgroup/cpu", f"sys/fs/cgroup/{controllers}"]
        else:
            continue
        for mount in mounts:
            for folder in _upwards(path):
                quota = _quota(os.path.join(root, mount, folder))
                if quota:
                    found.append(quota)
    return found


def _upwards(path: str) -> list[str]:
    """The group and all groups above it, up to the root; a container may not see the path of its root."""
    parts = [part for part in path.split("/") if part]
    return ["/".join(parts[:count]) for count in range(len(parts), -1, -1)]


def _quota(folder: str) -> float | None:
    """In cores; None: there is none."""
    words = _text(os.path.join(folder, "cpu.max")).split() or [
        _text(os.path.join(folder, "cpu.cfs_quota_us")),
        _text(os.path.join(folder, "cpu.cfs_period_us")),
    ]
    try:
        quota, period = (int(word) for word in words)
    except ValueError:  # "max", or there is no such file
        return None
    return quota / period if quota > 0 and period > 0 else None


def _text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""
