"""Lines to the socket of PERGPU_NOTIFY: what is shown beside a job while it runs (docs/jobs.md)."""

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
    """Never fails: to be shown is not what a job is for."""
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
    """Start-up is over: with `max_starting` the next job may begin."""
    _tell("READY=1", patience_s=1)  # it is said once, and others wait for it


def status(text: str) -> None:
    """What is shown beside the job; its end takes it away.  Five times a second it is told."""
    if _is_due("STATUS"):
        _tell(f"STATUS={text}")


def progress(n: float, total: float | None = None) -> None:
    """So many of `total` are done.  May be called for every batch: five times a second it is told."""
    if _is_due("PROGRESS") or n == total:
        _tell(f"PROGRESS={n:.12g}" if total is None else f"PROGRESS={n:.12g}/{total:.12g}")


def track(items: Iterable[T], total: int | None = None) -> Iterator[T]:
    """The same items, told of as progress() while one goes through them.

    >>> [batch for batch in track(["a", "b"])]
    ['a', 'b']
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    progress(0, total)
    for n, item in enumerate(items, 1):
        yield item
        progress(n, total)
