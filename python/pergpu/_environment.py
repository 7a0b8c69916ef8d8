"""The environment of a call: that of the program at its submit.

A job starts with the environment of the last submission to its sweep, which may be another program's.  So each
call brings the environment that its program had when it was submitted.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping
from typing import Any

# What pergpu decides for each job, or leaves out (docs/jobs.md).
_OF_THE_JOB = (
    "PERGPU_*", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_MPS_*", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
    "NOTIFY_SOCKET", "RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
    "TORCHELASTIC_*", "SLURM_*",
)  # fmt: skip
Changes = dict[str, "str | None"]
"""None: it is not set."""


class Environment:
    """The environments of one executor's calls."""

    def __init__(self, keys: Mapping[str, Any], is_here: bool) -> None:
        own, passed = keys.get("env"), keys.get("env_pass")
        self._own = [*own] if isinstance(own, Mapping) else []  # the executor refuses other ones in a moment
        self._passed = [passed] if isinstance(passed, str) else passed if isinstance(passed, list) and passed else None
        if passed == "all":
            self._passed = None
        self._is_here = is_here
        self._raw: Any = None
        self._seen: Changes = {}
        self._changes: Changes = {}
        self.first: dict[str, str] | None = None
        """The environment of the first call, for submitting jobs and starting warm workers.  None: no call came yet."""

    def of_call(self) -> Changes:
        """The environment for a call, in a process that may have another program's."""
        raw = getattr(os.environ, "_data", os.environ)  # to decode it all costs more than the rest of a submit
        if raw == self._raw:
            return self._seen
        raw = dict(raw)
        now = dict(os.environ)
        if self.first is None:
            self.first = now
        changes: Changes = {name: value for name, value in now.items() if self._is_here or self.first.get(name) != value}
        changes.update({name: None for name in self.first if name not in now})
        seen: Changes = {name: value for name, value in changes.items() if self._is_passed(name)}
        self._changes = {name: value for name, value in seen.items() if self.first.get(name) != value}
        self._raw, self._seen = raw, seen
        return seen

    def changes(self) -> Changes:
        """The changes for a process that was started with `first`."""
        if getattr(os.environ, "_data", os.environ) != self._raw:
            self.of_call()
        return self._changes

    def _is_passed(self, name: str) -> bool:
        if name in self._own or any(fnmatch.fnmatchcase(name, pattern) for pattern in _OF_THE_JOB):
            return False
        return self._passed is None or any(fnmatch.fnmatchcase(name, pattern) for pattern in self._passed)
