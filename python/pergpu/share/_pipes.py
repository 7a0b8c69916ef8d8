"""The channel that passes its slots through pipes, so that an event loop can wait for it.

It has no name: its five descriptors go to another process when that is started.  A process that keeps copies of
them hides the death of its peers.  So a process uses a channel for one end, which takes the descriptors.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from typing import Any

from .. import _share
from .._share import Consumer, Item, Producer
from ._channel import Items, OnDeath, _count, _skips, duplicated


class PipeChannel:
    """A Channel that `asyncio` can wait for, and that works where futexes are forbidden.

    Its options are those of Channel, but `slots` (4) is the total number.  Any number of processes may put
    and take.  Pass it to another process by inheritance, with `multiprocessing`, or as descriptors (`fds`,
    `from_fds`).  producer() and consumer() take the descriptors.  If your process uses neither, close the
    channel, because its copies of the descriptors hide the death of other processes.
    """

    __module__ = "pergpu.share"  # where people know it from

    def __init__(
        self,
        *,
        slots: int = 4,
        shape: Iterable[int] | None = None,
        dtype: Any = None,
        like: Any = None,
        slot_bytes: int | None = None,
    ) -> None:
        items = Items.said(shape, dtype, like, slot_bytes)
        if items is None:
            raise TypeError("describe the items, by shape and dtype, by like, or by slot_bytes")
        self._spec = items.spec
        self._pipes = _share.Pipes.create("channel", _count(slots, "slots", 2), items.slot_bytes, 1, 1)

    @classmethod
    def from_fds(
        cls,
        fds: Sequence[int],
        *,
        shape: Iterable[int] | None = None,
        dtype: Any = None,
        like: Any = None,
        slot_bytes: int | None = None,
    ) -> PipeChannel:
        """Opens the channel of fds().  This object now owns the descriptors.  You may describe the items again:
        then put() checks them."""
        items = Items.said(shape, dtype, like, slot_bytes)
        return cls._of(fds, items.spec if items else None)

    def producer(self, *, on_death: OnDeath = "raise", pinned: bool = False) -> Producer:
        """A producer.  ValueError: the descriptors are already taken, or closed."""
        return self._pipes.producer(self._spec, _skips(on_death), pinned)

    def consumer(self, *, on_death: OnDeath = "raise", pinned: bool = False) -> Consumer:
        """A consumer.  ValueError: as for producer()."""
        return self._pipes.consumer(None, _skips(on_death), pinned)

    def async_producer(self, *, on_death: OnDeath = "raise", pinned: bool = False) -> AsyncProducer:
        """A producer with an awaitable put()."""
        return AsyncProducer(self.producer(on_death=on_death, pinned=pinned))

    def async_consumer(self, *, on_death: OnDeath = "raise", pinned: bool = False) -> AsyncConsumer:
        """A consumer for `async for`, with an awaitable get()."""
        return AsyncConsumer(self.consumer(on_death=on_death, pinned=pinned))

    def fds(self) -> tuple[int, int, int, int, int]:
        """The memory, both ends of the pipe of filled slots, both of the pipe of free ones."""
        return self._pipes.fds()

    def close(self) -> None:
        """Closes the descriptors.  An existing producer or consumer stays open."""
        self._pipes.close()

    def __enter__(self) -> PipeChannel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (duplicated(list(self.fds()), "a channel over pipes"), self._spec)

    @classmethod
    def _of(cls, fds: Sequence[int], spec: _share._Spec | None) -> PipeChannel:
        self = cls.__new__(cls)
        self._spec = spec
        self._pipes = _share.Pipes.adopt(*fds)
        for fd in fds:
            os.close(fd)
        return self


def _received(fds: list[Any], spec: _share._Spec | None) -> PipeChannel:
    return PipeChannel._of([fd.detach() for fd in fds], spec)


class AsyncProducer:
    """A Producer for one event loop: several tasks may put items."""

    __module__ = "pergpu.share"

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._turn = _Turn(producer.fileno())

    async def put(self, value: Any) -> None:
        """Like Producer.put(); other tasks run while no slot is free."""
        async with self._turn:
            while True:
                try:
                    return self._producer.put(value, timeout=0)
                except TimeoutError:
                    await self._turn.readable()

    def close(self) -> None:
        """Sends nothing more."""
        self._producer.close()

    async def __aenter__(self) -> AsyncProducer:
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._producer.__exit__(*exception)


class AsyncConsumer:
    """A Consumer for one event loop: several tasks may take items."""

    __module__ = "pergpu.share"

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._turn = _Turn(consumer.fileno())

    async def get(self) -> Item:
        """Like Consumer.get(); other tasks run while no item is there."""
        async with self._turn:
            while True:
                try:
                    return self._consumer.get(timeout=0)
                except TimeoutError:
                    await self._turn.readable()

    def close(self) -> None:
        """Takes no more items."""
        self._consumer.close()

    def __aiter__(self) -> AsyncConsumer:
        return self

    async def __anext__(self) -> Item:
        try:
            return await self.get()
        except EOFError:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> AsyncConsumer:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._consumer.close()


class _Turn:
    """Lets one task at a time wait for a descriptor, since an event loop remembers one for each."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock: asyncio.Lock | None = None

    async def __aenter__(self) -> None:
        self._lock = self._lock or asyncio.Lock()  # in Python 3.9 it belongs to the loop that runs
        await self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        assert self._lock
        self._lock.release()

    async def readable(self) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._fd, _finish, future)
        try:
            await future
        finally:
            loop.remove_reader(self._fd)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
