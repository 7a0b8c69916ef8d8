"""Channels: arrays from producers to consumers, processes of one machine, each through a slot of shared memory.

The compiled part does the work for each item.  This module handles names, options and passing a channel to
another process.  docs/share.md describes the protocol.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from .. import _share
from .._share import Consumer, Memory, Producer
from ._meeting import meet, scoped
from ._peers import PeerDied, PeerLeft, gone
from ._visit import Scope

__all__ = ["Channel", "Items", "PeerDied", "PeerLeft", "gone"]

OnDeath = Literal["raise", "skip"]

_HEAD_ROOM = 1024  # kHeadRoom of src/python/item_layout.h


class Items(NamedTuple):
    """The items of a channel, as the user describes them."""

    spec: _share._Spec | None
    """Kind and arrays; None: each item describes itself."""
    slot_bytes: int
    """The bytes that a slot needs."""

    @classmethod
    def said(cls, shape: Iterable[int] | None, dtype: Any, like: Any, slot_bytes: int | None) -> Items | None:
        """None: no option was given.  TypeError: two conflicting options were."""
        ways = [name for name, one in (("shape", shape), ("like", like), ("slot_bytes", slot_bytes)) if one is not None]
        if len(ways) > 1:
            raise TypeError(f"the items are described by {' and by '.join(ways)}; use only one of them")
        if (shape is None) != (dtype is None):
            raise TypeError("shape and dtype belong together: one of them is missing")
        if slot_bytes is not None:
            return cls(None, _count(slot_bytes, "slot_bytes", 1) + _HEAD_ROOM)
        if like is not None:
            spec = _share.spec_of_example(like)
        elif shape is not None:
            spec = "array", [("", _name_of(dtype), tuple(shape))]
        else:
            return None
        return cls(spec, _share.size_of_spec(spec))


class Channel:
    """Sends arrays from producers to consumers, which are processes of one machine.

    `name`: all processes of this user that open a channel of that name get the same one; in jobs of a
    sweep, all processes of that sweep, unless `scope` is "user".  Pass a channel without a name to other
    processes by inheritance, with `multiprocessing`, or as a descriptor.  A channel exists as long as a
    process has it open.

    Describe the items in one of three ways.  `shape` and `dtype`: all items are such arrays.  `like`: an
    example, an array, or a tuple or dict of arrays.  `slot_bytes`: the largest size of an item, if items
    differ.  `producers` and `consumers` (1): how many there can be at once.  Each item goes to one consumer.
    `slots` (4): how many items each producer can have in transit to each consumer; at least 2, since one is
    filled while another is read.  When you open an existing channel you may leave options out; an option
    that contradicts it is a ValueError.

    >>> with Channel(shape=(3,), dtype="uint8") as channel:
    ...     with channel.consumer() as batches:
    ...         with channel.producer() as out:
    ...             out.put(b"abc")
    ...         [bytes(batch) for batch in batches]
    [b'abc']
    """

    __module__ = "pergpu.share"  # where people know it from

    def __init__(
        self,
        name: str | None = None,
        *,
        slots: int | None = None,
        shape: Iterable[int] | None = None,
        dtype: Any = None,
        like: Any = None,
        slot_bytes: int | None = None,
        producers: int | None = None,
        consumers: int | None = None,
        scope: Scope = "sweep",
    ) -> None:
        self.name = name
        items = Items.said(shape, dtype, like, slot_bytes)
        counts = {"slots": slots, "producers": producers, "consumers": consumers}
        for which, count in counts.items():
            if count is not None:
                _count(count, which, 2 if which == "slots" else 1)
        if name is None:
            self._channel = _made("channel", "", None, items, counts)
            self._note = json.loads(self._channel.note)
            return
        key = scoped(name, scope)
        self._memory = meet("channel", key, lambda found: _is(found, key), lambda told: _memory_of(_made(told, key, name, items, counts)))
        self._channel = _share.Channel.adopt(self._memory.fileno())
        self._note = json.loads(self._channel.note)
        self._check(items, counts)

    @classmethod
    def from_fd(cls, fd: int) -> Channel:
        """Opens the channel of a descriptor of fileno().  This object now owns the descriptor; after an
        exception the caller still owns it.  ValueError: it isn't a channel.
        """
        self = cls.__new__(cls)
        self._channel = _share.Channel.adopt(fd)
        try:
            self._note = json.loads(self._channel.note)
            self._note["item"], self._note["name"]
        except (ValueError, KeyError, TypeError):
            self._channel.close()
            raise ValueError(f"descriptor {fd} is a channel that was not made by share.Channel") from None
        self.name = self._note["name"]
        os.close(fd)
        return self

    def producer(self, *, on_death: OnDeath = "raise", pinned: bool = False) -> Producer:
        """Becomes a producer of this channel.

        With `on_death="skip"` a consumer's death raises no exception here.  Either way, the items that it had
        not taken go to other consumers.  `pinned`: pins the slots for copies to and from GPUs; RuntimeError:
        there is no CUDA here.  BlockingIOError and similar (OSError): all producer places are taken.
        """
        return self._channel.producer(self._spec(), _skips(on_death), pinned)

    def consumer(self, *, on_death: OnDeath = "raise", pinned: bool = False) -> Consumer:
        """Becomes a consumer of this channel.

        With `on_death="skip"` a producer's death raises no exception here: this consumer waits for other
        producers to replace it, until complete().  `pinned` as for producer().
        """
        return self._channel.consumer(None, _skips(on_death), pinned)

    def complete(self) -> None:
        """Declares that no more producers will come: consumers stop waiting for producers that died or are missing."""
        self._channel.complete()

    def join(self, timeout: float | None = None) -> None:
        """Waits until all items have been taken.  Call it if this process is the last that has the channel, so
        that no item is lost when it ends.  TimeoutError: items were left.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._channel.describe()["ready"]:
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"{self._channel.describe()['ready']} items were not taken")
            time.sleep(0.005)

    def describe(self) -> dict[str, Any]:
        """The current producers and consumers, and the items in transit, for debugging."""
        return {"name": self.name, **self._channel.geometry, **self._channel.describe()}

    def fileno(self) -> int:
        """The descriptor, to pass to a child or over a socket."""
        return self._channel.fileno()

    def close(self) -> None:
        """Closes the descriptor.  Its producers and consumers stay open."""
        self._channel.close()
        if self.__dict__.get("_memory"):
            self._memory.close()

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (duplicated([self.fileno()], "a channel")[0],)

    def __repr__(self) -> str:
        return f"<pergpu.share.Channel{'' if self.name is None else ' ' + repr(self.name)}>"

    def _spec(self) -> tuple[str, Any] | None:
        spec = self._note["item"]
        return None if spec is None else (spec[0], spec[1])

    def _check(self, items: Items | None, counts: dict[str, int | None]) -> None:
        """ValueError: the channel differs from the given options."""
        there: dict[str, Any] = self._channel.geometry
        said: dict[str, Any] = {which: count for which, count in counts.items() if count is not None}
        if items:
            there["items"], said["items"] = _words(self._note), _words(json.loads(_note("", None, items)))
        wrong = [f"{which} {said[which]} ({there[which]})" for which in said if said[which] != there[which]]
        if wrong:
            self.close()
            raise ValueError(f"the channel {self.name!r} exists with other options (in parentheses): {', '.join(wrong)}")


def duplicated(fds: list[int], what: str) -> list[Any]:
    """For a process that is being started.  TypeError: no process is being started."""
    from multiprocessing import context, reduction

    if context.get_spawning_popen() is None:
        raise TypeError(f"{what} can be passed to another process only when multiprocessing starts it, by its name, or as a descriptor")
    return [reduction.DupFd(fd) for fd in fds]


def _received(fd: Any) -> Channel:
    return Channel.from_fd(fd.detach())


def _made(label: str, key: str, name: str | None, items: Items | None, counts: dict[str, int | None]) -> _share.Channel:
    if items is None:
        raise TypeError("this channel doesn't exist yet: describe its items, by shape and dtype, by like, or by slot_bytes")
    return _share.Channel.create(
        label, counts["slots"] or 4, items.slot_bytes, counts["producers"] or 1, counts["consumers"] or 1, _note(key, name, items)
    )


def _note(key: str, name: str | None, items: Items) -> str:
    return json.dumps({"key": key, "name": name, "item": items.spec, "slot_bytes": items.slot_bytes})


def _memory_of(channel: _share.Channel) -> Memory:
    memory = Memory.adopt(os.dup(channel.fileno()))
    channel.close()
    return memory


def _is(memory: Memory, key: str) -> bool:
    channel = _share.Channel.adopt(memory.fileno())
    try:
        return bool(json.loads(channel.note)["key"] == key)
    except (KeyError, TypeError):
        return False
    finally:
        channel.close()


def _words(note: dict[str, Any]) -> str:
    if note["item"] is None:
        return f"of up to {note['slot_bytes'] - _HEAD_ROOM} bytes"
    kind, parts = note["item"]
    arrays = [(f"{name}: " if name else "") + f"{dtype} of {tuple(shape)}" for name, dtype, shape in parts]
    return arrays[0] if kind == "array" else f"{kind} of {', '.join(arrays)}"


def _skips(on_death: str) -> bool:
    if on_death not in ("raise", "skip"):
        raise ValueError(f'on_death is {on_death!r}; expected "raise" or "skip"')
    return on_death == "skip"


def _count(count: int, what: str, least: int) -> int:
    if not isinstance(count, int) or count < least:
        raise ValueError(f"{what} is {count!r}; expected an integer of at least {least}")
    return count


def _name_of(dtype: Any) -> str:
    """The name of a dtype: from a string, or from a type of numpy, torch or jax."""
    if isinstance(dtype, str):
        return dtype
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    return str(name or str(dtype).rpartition(".")[2])
