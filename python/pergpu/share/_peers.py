"""The errors that a channel raises for the processes at its other end."""

from __future__ import annotations

import signal
from typing import Literal


class PeerDied(RuntimeError):
    """A process at the other end of a channel ended without closing it.

    Raised once for each death, by the next call after all its items were taken.  The channel stays usable:
    another process may take the place.
    """

    __module__ = "pergpu.share"  # where people know it from

    pid: int | None
    """The process; None: there never was one."""
    signal: int | None
    """The signal that killed it, if that is still known: only until its parent has collected its status."""
    sequence: int | None
    """For a producer: the number of its last item that arrived here; None: no item did."""
    lost: int
    """For a consumer: how many items of this producer it held, which are lost."""

    def __init__(self, words: str, pid: int | None = None, signal: int | None = None, sequence: int | None = None, lost: int = 0) -> None:
        super().__init__(words)
        self.pid, self.signal, self.sequence, self.lost = pid, signal, sequence, lost

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.pid, self.signal, self.sequence, self.lost)


class PeerLeft(PeerDied):
    """A producer left without close(): an exception ended its block, or it called detach()."""

    __module__ = "pergpu.share"


def gone(died: bool, side: Literal["producer", "consumer"], pid: int, sequence: int, lost: int) -> PeerDied:
    """The exception for a peer's end; called by the compiled part."""
    killer = signal_of(pid) if died else None
    if not pid:
        words = f"there is no {side}, and none can come"
    elif not died:
        words = f"the {side}, process {pid}, left without close()"
    else:
        words = f"the {side}, process {pid}, died" + (f" by {name_of(killer)}" if killer else "")
    if side == "producer" and pid:
        words += f"; its last item was number {sequence}" if sequence else "; no item of it arrived here"
    elif lost:
        words += f" while it held {lost} item{'s' if lost > 1 else ''}"
    return (PeerDied if died else PeerLeft)(words, pid or None, killer, sequence or None, lost)


def signal_of(pid: int) -> int | None:
    """The signal that killed a process, as long as its exit status was not collected."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # from the third on
    except OSError:
        return None
    if fields[0] not in (b"Z", b"X") or len(fields) < 50:
        return None
    return int(fields[49]) & 0x7F or None


def name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
