"""Removes the files of an executor without a name: no other program asks for its arguments and results.

The arguments of a call are removed when it has returned.  Results that were read are removed at the normal end
of the program.  After an uncaught exception they stay, for attach().  Logs, and calls that can run again, stay.
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
    """The files of one executor."""

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
        """Keeps everything: a call has failed, or calls continue without this program."""
        self._is_kept = True

    def returned(self, number: int) -> None:
        next(self._returned)
        if self._has_files:
            with contextlib.suppress(OSError):
                os.unlink(str(number), dir_fd=self.folder.found())

    def read(self, path: str | None) -> None:
        """Removes the result of a call.  None: it has no separate file."""
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
    """In a forked child: the files belong to its parent."""
    _all.clear()
