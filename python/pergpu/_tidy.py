"""What an executor without a name leaves behind: nobody else asks for it, so arguments and results go.

The arguments of a call go when it has returned.  Results that were read go at the normal end of the program: after an
exception that nobody caught they are still there, for attach().  What can be run again, and logs, stay.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys

from . import _private
from ._calls_folder import CallsFolder

_all: list[Tidy] = []


class Tidy:
    """Of one executor."""

    def __init__(self, folder: CallsFolder, has_files: bool) -> None:
        """`has_files`: each call has a file for its arguments."""
        self._has_files = has_files
        self.folder = folder
        self._paths: set[str] = set()  # of results that were read
        self._returned = itertools.count()  # each step is one for all threads, and costs less than a lock
        self._read = itertools.count()
        self._is_kept = False
        _all.append(self)

    def keep(self) -> None:
        """All of it: a call has failed, or calls go on without this program."""
        self._is_kept = True

    def returned(self, number: int) -> None:
        next(self._returned)
        if self._has_files:
            with contextlib.suppress(OSError):
                os.unlink(str(number), dir_fd=self.folder.found())

    def read(self, path: str | None) -> None:
        """The result of a call.  None: it's in no file of its own."""
        next(self._read)
        if path is not None:
            self._paths.add(path)

    def finish(self) -> None:
        for path in self._paths:
            with contextlib.suppress(OSError):
                _private.remove(path)
        if next(self._returned) == next(self._read) and not self._is_kept:
            self.folder.remove()


def finish_all() -> None:
    """The program ends."""
    if not hasattr(sys, "last_value") and not hasattr(sys, "last_exc"):
        for one in _all:
            one.finish()
    _all.clear()


def keep_of(sweep: str) -> None:
    """Another executor adds to the sweep, by its name."""
    for one in _all:
        if one.folder.sweep == sweep:
            one.keep()


def forget_all() -> None:
    """In a forked child: they are its parent's."""
    _all.clear()
