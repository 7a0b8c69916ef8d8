"""Channels: arrays from producers to consumers, processes of one machine, each through a slot of shared memory.

What is done for each item is in the compiled part; here are names, options and how a channel comes
into another process.  The protocol is in docs/share.md.
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
    """What the items of a channel are, as users say it."""

    spec: _share._Spec | None
    """Kind and arrays; None: each item tells by itself."""
    slot_bytes: int
    """What a slot has to have."""

    @classmethod
    def said(cls, shape: Iterable[int] | None, dtype: Any, like: Any, slot_bytes: int | None) -> Items | None:
        """None: nothing was said.  TypeError: in two ways."""
        ways = [name for name, one in (("shape", shape), ("like", like), ("slot_bytes", slot_bytes)) if one is not None]
        if len(ways) > 1:
            raise TypeError(f"what the items are is said by {' and by '.join(ways)}: one of them was expected")
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
    """Arrays from producers to consumers, which are processes of one machine.

    `name`: all processes of this user that open a channel of that name have the same one; in jobs of a
    sweep, those of the same sweep, unless `scope` is "user".  Without a name it goes to other processes
    by inheritance, with `multiprocessing`, or as a descriptor.  It is there as long as a process has it.

    What an item is: `shape` and `dtype` of an array; or `like`, an array, or a tuple or dict of arrays,
    as an example; or `slot_bytes`, the most that an item may have, where each is another.
    `producers` and `consumers` (1): how many there can be at once.  Each item goes to one consumer.
    `slots` (4): so many items each producer may have on their way to each consumer; at least 2, one that
    is filled while the other is read.  Who opens one that is there may leave options out; one that
    contradicts it is a ValueError.

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
        """That of a descriptor of fileno(), which is this object's to close from now on; after an
        exception it is the caller's.  ValueError: it is another thing."""
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
        """Takes the place of a producer.

        With `on_death="skip"` consumers that die are no exceptions here: what they had not taken goes
        to others either way.  `pinned`: the slots are pinned for copies from and to GPUs; RuntimeError:
        there is no CUDA here.  BlockingIOError and the like (OSError): all places are taken.
        """
        return self._channel.producer(self._spec(), _skips(on_death), pinned)

    def consumer(self, *, on_death: OnDeath = "raise", pinned: bool = False) -> Consumer:
        """Takes the place of a consumer.

        With `on_death="skip"` producers that die are no exceptions here: this consumer waits for others
        that take their places, until complete().  `pinned` as with producer().
        """
        return self._channel.consumer(None, _skips(on_death), pinned)

    def complete(self) -> None:
        """No more producers will come: those that died or never came are not waited for."""
        self._channel.complete()

    def join(self, timeout: float | None = None) -> None:
        """Waits until all that was put has been taken, so that nothing is lost when this process, the
        last that has the channel, ends.  TimeoutError: it was not."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._channel.describe()["ready"]:
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"{self._channel.describe()['ready']} items were not taken")
            time.sleep(0.005)

    def describe(self) -> dict[str, Any]:
        """Who is at its ends and what is on its way, at this moment: for people."""
        return {"name": self.name, **self._channel.geometry, **self._channel.describe()}

    def fileno(self) -> int:
        """The descriptor, for a child or for a socket."""
        return self._channel.fileno()

    def close(self) -> None:
        """Closes the descriptor.  Producers and consumers that were made stay."""
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
        """ValueError: it is otherwise than was said."""
        there: dict[str, Any] = self._channel.geometry
        said: dict[str, Any] = {which: count for which, count in counts.items() if count is not None}
        if items:
            there["items"], said["items"] = _words(self._note), _words(json.loads(_note("", None, items)))
        wrong = [f"{which} {said[which]} ({there[which]})" for which in said if said[which] != there[which]]
        if wrong:
            self.close()
            raise ValueError(f"the channel {self.name!r} is there with other options (in brackets): {', '.join(wrong)}")


def duplicated(fds: list[int], what: str) -> list[Any]:
    """For a process that is being started.  TypeError: none is."""
    from multiprocessing import context, reduction

    if context.get_spawning_popen() is None:
        raise TypeError(f"{what} goes to another process when that is started by multiprocessing, by its name, or as a descriptor")
    return [reduction.DupFd(fd) for fd in fds]


def _received(fd: Any) -> Channel:
    return Channel.from_fd(fd.detach())


def _made(label: str, key: str, name: str | None, items: Items | None, counts: dict[str, int | None]) -> _share.Channel:
    if items is None:
        raise TypeError("nobody has made this channel: say what its items are, by shape and dtype, by like, or by slot_bytes")
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
        raise ValueError(f'on_death is "raise" or "skip", not {on_death!r}')
    return on_death == "skip"


def _count(count: int, what: str, least: int) -> int:
    if not isinstance(count, int) or count < least:
        raise ValueError(f"{what} is {count!r}: a number from {least} on was expected")
    return count


def _name_of(dtype: Any) -> str:
    """Of a name, or of a type of numpy, torch or jax."""
    if isinstance(dtype, str):
        return dtype
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    return str(name or str(dtype).rpartition(".")[2])
