"""The folder of an executor's calls.  It is opened once, so no other user can replace it (_private.py)."""

from __future__ import annotations

import contextlib
import os

from ._private import open_folder, open_private
from ._queue import high


class CallsFolder:
    """SWEEP/_calls, which holds arguments and environments: no other user may read them."""

    def __init__(self, sweep: str) -> None:
        """`sweep`: its folder."""
        self.sweep = sweep
        self.path = sweep + "/_calls"
        self._fd = -1

    def made(self) -> int:
        """Its descriptor, always the same; the folder is made if it isn't there."""
        return self._fd if self._fd >= 0 else self._keep(open_private(self.path, make=True))

    def found(self) -> int:
        """The same.  FileNotFoundError: it isn't there."""
        return self._fd if self._fd >= 0 else self._keep(open_private(self.path))

    def _keep(self, fd: int) -> int:
        fd = high(fd)
        if self._fd < 0:
            self._fd = fd
        else:  # another thread was faster
            os.close(fd)
        return self._fd

    def remove(self) -> None:
        """With all that is in it; what can't be removed stays."""
        with contextlib.suppress(OSError):
            for _, folders, files, at in os.fwalk(".", topdown=False, dir_fd=self.found()):
                for name in files:
                    with contextlib.suppress(OSError):
                        os.unlink(name, dir_fd=at)
                for name in folders:
                    with contextlib.suppress(OSError):
                        os.rmdir(name, dir_fd=at)
            above = open_folder(self.sweep)
            try:
                os.rmdir("_calls", dir_fd=above)
            finally:
                os.close(above)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
