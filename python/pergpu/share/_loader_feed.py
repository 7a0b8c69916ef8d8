"""Sends a loader's batches to other processes: copies each once into a slot of a channel, or of several.

A batch counts as given out when it was sent to all its channels.  Slots of all channels are taken first, then
filled, then sent, so an interrupted wait has sent it to none.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from .. import _share
from .._share import Array, Producer, Slot
from ._channel import Channel, OnDeath
from ._peers import PeerDied
from ._visit import Scope

if TYPE_CHECKING:
    from ._loader import Loader

_LOOK = 0.5  # seconds after which one that waits looks whether somebody is left: consumers that close tell nobody


class Fed(NamedTuple):
    """The result of Loader.feed()."""

    batches: int
    """The number of sent batches, including those that consumers held when they died (`lost` of each death)."""
    deaths: tuple[PeerDied, ...]
    """The consumers that died, in the order in which feed() noticed."""


class _Outlet:
    """A channel, and this process's end of it."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.out: Producer = channel.producer()

    def is_deserted(self) -> bool:
        """All expected consumers came, and none is left."""
        return all(one["state"] not in ("vacant", "alive") for one in self.channel.describe()["consumers"])

    def slot(self, like: Any, deadline: Callable[[], float | None]) -> Slot | None:
        """None: no consumer is left.  TimeoutError: there was no slot in time.  PeerDied."""
        while True:
            left = deadline()
            try:
                return self.out.slot(like, _LOOK if left is None else min(_LOOK, left))
            except TimeoutError:
                if self.is_deserted():
                    return None
                if left is not None and left <= _LOOK:
                    raise


    def drain(self, deadline: Callable[[], float | None]) -> None:
        """Waits until all sent items were taken, or no consumer is left.  TimeoutError: items were left.  PeerDied."""
        there = [one for one in self.channel.describe()["consumers"] if one["state"] == "alive"]
        if there and all(one["pid"] == os.getpid() for one in there):
            return  # this process takes them later
        anything = bytearray(1) if self.channel._spec() is None else None
        while True:
            left = deadline()
            try:
                return self.channel.join(_LOOK if left is None else min(_LOOK, left))
            except TimeoutError:
                if self.is_deserted():
                    try:
                        return self.out.slot(anything, 0).abandon()  # which tells how they went
                    except TimeoutError:
                        return
                if left is not None and left <= _LOOK:
                    raise


def channel_for(loader: Loader, called: str | None, consumers: int, slots: int, scope: Scope) -> Channel:
    """A channel whose slots fit the loader's batches, including the short ones at the ends of epochs."""
    if loader.workers:
        raise ValueError("the size of map's results is unknown: use share.Channel(name, slot_bytes=…)")
    kind, arrays = spec_of(loader)
    parts = [(_name(name) if kind == "dict" else "", dtype, shape) for name, dtype, shape in arrays]
    return Channel(called, slots=slots, slot_bytes=_share.size_of_spec((kind, parts)), consumers=consumers, scope=scope)


def spec_of(loader: Loader) -> tuple[str, list[tuple[Any, str, tuple[int, ...]]]]:
    """The form of a batch ("array", "tuple" or "dict"); name, dtype and shape of its arrays."""
    rows = min(loader.batch_size, -(-loader._rows() // loader.shard[1]))
    shaped = loader._shaped([None] * len(loader._fields))
    kind = "dict" if isinstance(shaped, dict) else "tuple" if isinstance(shaped, tuple) else "array"
    return kind, [(name, dtype, (rows, *shape)) for name, (shape, dtype) in zip(loader._fields, loader._layout)]


def feed(
    loader: Loader,
    channels: Channel | Iterable[Channel],
    on_death: OnDeath,
    timeout: float | None,
    after: Callable[[], object] | None,
) -> Fed:
    import time

    if on_death not in ("raise", "skip"):
        raise ValueError(f'on_death is {on_death!r}; expected "raise" or "skip"')
    listed = [channels] if isinstance(channels, Channel) else list(channels)
    for one in listed:
        if not isinstance(one, Channel):
            raise TypeError(f"channels has {one!r}; expected share.Channel")
    if not listed:
        raise ValueError("channels is empty; expected one channel or more")
    outlets: list[_Outlet] = []
    deaths: list[PeerDied] = []
    sent = 0
    try:
        outlets.extend(map(_Outlet, listed))
        end = loader._end()
        while loader._place[0] < end:
            batch, following = loader._taken("array")
            until = None if timeout is None else time.monotonic() + timeout
            try:
                _send(batch, outlets, deaths, on_death, lambda: None if until is None else max(0.0, until - time.monotonic()))
            except BaseException:
                loader._go_to(*loader._place)  # nobody has got it: it comes next
                raise
            loader._place = following
            sent += 1
            del batch
            if after is not None:
                after()
        until = None if timeout is None else time.monotonic() + timeout
        for outlet in outlets:  # this process may be the only one that has the channel
            try:
                outlet.drain(lambda: None if until is None else max(0.0, until - time.monotonic()))
            except PeerDied as died:
                if on_death == "raise":
                    raise
                deaths.append(died.with_traceback(None))
            outlet.out.close()
    finally:
        for outlet in outlets:
            if not outlet.out.closed:
                outlet.out.detach()
    return Fed(sent, tuple(deaths))


def _send(
    batch: Any, outlets: list[_Outlet], deaths: list[PeerDied], on_death: OnDeath, deadline: Callable[[], float | None]
) -> None:
    """Sends to all outlets, or after an exception to none; outlets without consumers are removed."""
    slots: list[Slot] = []
    try:
        for outlet in [*outlets]:
            slot = None
            while slot is None:
                try:
                    slot = outlet.slot(batch, deadline)
                except PeerDied as died:
                    if on_death == "raise":
                        raise
                    deaths.append(died.with_traceback(None))  # which would keep the batch and the ends
                if slot is None and outlet.is_deserted():
                    outlet.out.detach()  # who comes later is told that it did not come to its end
                    outlets.remove(outlet)
                    break
            else:
                slots.append(slot)
        if not outlets:
            raise _nobody(deaths)
        for slot in slots:
            _fill(slot, batch)
    except BaseException:
        for slot in slots:
            slot.abandon()
        raise
    for slot in slots:
        slot.publish()


def _nobody(deaths: list[PeerDied]) -> Exception:
    if deaths:
        last = deaths[-1]
        return PeerDied(f"no consumers are left to feed: {last}", last.pid, last.signal, last.sequence, last.lost)
    return BrokenPipeError("no consumers are left to feed: all have closed")


def _fill(slot: Slot, batch: Any) -> None:
    if isinstance(batch, Array):
        copy_into(slot.array, batch)
    else:
        for name, array in batch.items() if isinstance(batch, dict) else enumerate(batch):
            copy_into(slot[name], array)


def copy_into(into: Array, array: Array) -> None:
    """Copies without the interpreter lock."""
    ctypes.memmove(into.__array_interface__["data"][0], array.__array_interface__["data"][0], array.nbytes)


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of array {name!r} is not a string; a channel needs strings")
    return name
