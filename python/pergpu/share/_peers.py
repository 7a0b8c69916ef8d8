"""What a channel tells of the processes at its other end."""

from __future__ import annotations

import signal
from typing import Literal


class PeerDied(RuntimeError):
    """A process at the other end of a channel ended without saying that it would.

    Told once for each death, by the next call after everything that it had sent was taken.  The channel
    goes on: another process may take the place.
    """

    __module__ = "pergpu.share"  # where people know it from

    pid: int | None
    """The process; None: nobody ever was there."""
    signal: int | None
    """What killed it, where that can still be known: only as long as its parent has not asked."""
    sequence: int | None
    """Of a producer: the number of the last item of it that came here; None: none did."""
    lost: int
    """Of a consumer: how many items of this producer it had in its hands, which nobody else will get."""

    def __init__(self, words: str, pid: int | None = None, signal: int | None = None, sequence: int | None = None, lost: int = 0) -> None:
        super().__init__(words)
        self.pid, self.signal, self.sequence, self.lost = pid, signal, sequence, lost

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.pid, self.signal, self.sequence, self.lost)


class PeerLeft(PeerDied):
    """A producer went without close(): an exception ended its block, or it called detach()."""

    __module__ = "pergpu.share"


def gone(died: bool, side: Literal["producer", "consumer"], pid: int, sequence: int, lost: int) -> PeerDied:
    """The exception that tells of it; called by the compiled part."""
    killer = signal_of(pid) if died else None
    if not pid:
        words = f"there is no {side}, and none can come"
    elif not died:
        words = f"the {side}, process {pid}, went without close()"
    else:
        words = f"the {side}, process {pid}, died" + (f" by {name_of(killer)}" if killer else "")
    if side == "producer" and pid:
        words += f"; the last item of it was number {sequence}" if sequence else "; nothing of it came here"
    elif lost:
        words += f" with {lost} item{'s' if lost > 1 else ''} in its hands"
    return (PeerDied if died else PeerLeft)(words, pid or None, killer, sequence or None, lost)


def signal_of(pid: int) -> int | None:
    """What killed a process, as long as nobody has asked for its exit status."""
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
