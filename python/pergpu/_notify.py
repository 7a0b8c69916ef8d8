"""Lines to the socket of PERGPU_NOTIFY: text that is shown with a job while it runs (docs/jobs.md)."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

T = TypeVar("T")

_PAUSE_S = 0.2  # pergpu shows five lines of a kind a second
_MOST_BYTES = 1024  # of a line
_told_at = {"STATUS": -_PAUSE_S, "PROGRESS": -_PAUSE_S}  # when one was sent last


def _tell(line: str, patience_s: float = 0) -> None:
    """Never fails: a job doesn't depend on its display."""
    path = os.environ.get("PERGPU_NOTIFY")
    if not path:
        return
    text = " ".join(line.split("\n")).encode(errors="replace")[:_MOST_BYTES]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.settimeout(patience_s)
            notify.sendto(text.decode(errors="ignore").encode(), path)
    except OSError:
        pass


def _is_due(kind: str) -> bool:
    now = time.monotonic()
    if now - _told_at[kind] < _PAUSE_S:
        return False
    _told_at[kind] = now
    return True


def ready() -> None:
    """Reports that start-up is over: with `max_starting` the next job may begin."""
    _tell("READY=1", patience_s=1)  # it is said once, and others wait for it


def status(text: str) -> None:
    """Sets the text shown with the job, until the job ends.  Sent at most five times a second."""
    if _is_due("STATUS"):
        _tell(f"STATUS={text}")


def progress(n: float, total: float | None = None) -> None:
    """Shows that `done` of `total` are done.  You may call it for every batch: it sends at most five times a second."""
    if _is_due("PROGRESS") or n == total:
        _tell(f"PROGRESS={n:.12g}" if total is None else f"PROGRESS={n:.12g}/{total:.12g}")


def track(items: Iterable[T], total: int | None = None) -> Iterator[T]:
    """Yields the same items, and shows how many are done, as progress() does.

    >>> [batch for batch in track(["a", "b"])]
    ['a', 'b']
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    progress(0, total)
    for n, item in enumerate(items, 1):
        yield item
        progress(n, total)
