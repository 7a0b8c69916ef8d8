"""Batches of shared data, gathered by threads that need no interpreter lock.

A loader has one position, the next batch; every request for a batch moves it on.  A batch is in a slot that
is filled again when the last view of it is gone.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Callable, Literal

from .. import _share
from .._share import Array
from ._budget import cores
from ._images import Images
from ._rows import fields_of

if TYPE_CHECKING:
    from ._channel import Channel, OnDeath
    from ._loader_feed import Fed
    from ._loader_map import Gathered, Map
    from ._visit import Scope

Output = Literal["array", "numpy", "torch", "jax"]
_STATE = 1  # the version of state_dict()


class Rest:
    """Batches of a loader from its position on."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __iter__(self) -> Iterator[Any]:
        return self._loader._iterated(self._loader.output, True)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._loader._waiting(True)


class Loader:
    """Gathers rows of arrays into batches: shuffled, transformed, and prepared ahead by C++ threads.

        loader = share.Loader(share.dataset("digits.npz"), batch_size=64, seed=1, output="torch")
        for epoch in range(10):
            for batch in loader:                 # {"x": …, "y": …}
                train(batch["x"], batch["y"])

    `data`: a dict of arrays, a tuple of arrays, or an array (of share, numpy, torch on the CPU, or
    any object with a buffer).  The first dimension is the rows; all arrays have the same number of rows.
    Batches have the same structure.  The data is read in place during the training.

    `batch_size`: rows; the last batch of an epoch has the remaining rows, or with `drop_last` is left out.
    `shuffle`, `seed`: equal seeds give the same order, everywhere.  `shard=(i, n)`: the i-th of n parts of
    each epoch, which are disjoint and complete.  `epochs`: how many epochs one `for` covers; None: it never
    ends.

    `transforms`: Images by the array's name (by number for a tuple; just one for a single array).
    `output`: the type of a batch's arrays: share.Array, or those of numpy, torch, jax, all without a copy.

    `map`: a function of a batch, with numpy arrays, that returns an array, or a dict or tuple of arrays, of
    any shape.  It runs in `workers` processes (1).  They find it by its name: define it at the top level of
    a module or of a script, whose own work is then under `if __name__ == "__main__":`.  It may change its
    batch.  If it has a parameter `seed`, it gets a 32-bit number that depends only on the loader's seed, the
    epoch and the batch.  An exception of the function is raised here, caused by the worker's traceback;
    PeerDied: a worker died.  In both cases the batch was not given out, and comes next.

    `threads`: at most N threads.  Threads and workers together never use more than this process's cores,
    less one for the training, but at least one thread and one worker; None: as many as fit.  `ahead`: how
    many batches are prepared in addition to those that you hold; None: one more than threads, plus two for
    each worker.  You can keep as many batches as memory allows; they do not change.
    `pinned`: batches are in memory that CUDA copies asynchronously; keep a batch until its copy is done.

    TypeError, ValueError: the arguments are wrong.  MemoryError: not enough memory.  OSError: there is no
    CUDA to pin memory with (with map, the first batch raises it).
    """

    __module__ = "pergpu.share"

    def __init__(
        self,
        data: Any,
        *,
        batch_size: int = 64,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        epochs: int | None = 1,
        shard: tuple[int, int] = (0, 1),
        transforms: Mapping[Any, Images] | Images | None = None,
        output: Output = "array",
        threads: int | None = None,
        ahead: int | None = None,
        pinned: bool = False,
        map: Callable[..., Any] | None = None,
        workers: int | None = None,
    ) -> None:
        if output not in _CONVERTERS:
            raise ValueError(f"output is {output!r}; expected one of {', '.join(repr(one) for one in _CONVERTERS)}")
        self.batch_size = _number("batch_size", batch_size, 1, (1 << 32) - 1)
        self.seed = _number("seed", seed, 0, (1 << 64) - 1)
        self.epochs = None if epochs is None else _number("epochs", epochs, 1, 1 << 40)
        self.shuffle, self.drop_last = bool(shuffle), bool(drop_last)
        self.shard = _shard(shard)
        self.output = output
        budget = max(1, cores() - 1)
        self.workers = 0 if map is None else min(max(1, budget - 1), _number("workers", 1 if workers is None else workers, 1, 1024))
        if map is None and workers is not None:
            raise ValueError(f"workers is {workers!r}, but there is no map: workers are the processes that run its function")
        budget = max(1, budget - self.workers)
        self.threads = budget if threads is None else min(budget, _number("threads", threads, 1, 1024))
        self.ahead = self.threads + 1 if ahead is None else _number("ahead", ahead, 1, 1 << 16)
        self.pinned = bool(pinned)
        self._fields, self._shaped = fields_of(data)
        self._images = _images_of(transforms, self._fields)
        self._layout = [_part(array, self._images.get(name)) for name, array in self._fields.items()]
        self._place = (0, 0)  # epoch and number of the batch that comes next
        self._chosen = (0, 0)  # a place from which a `for` goes on; from the middle of an epoch it starts over else
        self._closed = False
        self._map = None if map is None else self._mapped(map)
        self._native = self._opened()
        self._offsets = self._native.offsets
        self.batches: int = self._native.batches
        """The number of batches in an epoch."""

    @property
    def epoch(self) -> int:
        """The epoch of the next batch; the first is 0."""
        return self._place[0]

    @property
    def number(self) -> int:
        """The number of the next batch, in its epoch."""
        return self._place[1]

    def __len__(self) -> int:
        """The number of batches of one whole `for`."""
        if self.epochs is None:
            raise TypeError("this loader never ends: `batches` is the number in an epoch")
        return self.batches * self.epochs

    def __iter__(self) -> Iterator[Any]:
        """Yields the batches of an epoch, or of `epochs` of them.

        After a `break` the next `for` starts with the next epoch: it has another order, so no rows are seen
        more often than others.  With epochs=None, and after load_state_dict(), set_epoch() or an exception
        of the loader, it continues; rest() always continues."""
        return self._iterated(self.output)

    def __aiter__(self) -> AsyncIterator[Any]:
        """The same for an event loop: only the task that asks waits."""
        return self._waiting(False)

    def rest(self) -> Rest:
        """The remaining batches of a `for` that you left with `break`: `for batch in loader.rest()`, or `async for`."""
        return Rest(self)

    async def _waiting(self, goes_on: bool) -> AsyncIterator[Any]:
        import asyncio

        end = self._begun(goes_on)
        while self._place[0] < end:
            wait = self._current().wait if self._map is None else self._map_at_its_place().waiting(self._gathered)
            if wait(0):
                await asyncio.sleep(0)  # others get their turn, too
            else:  # nothing is taken there, so a cancelled wait loses nothing
                try:
                    await asyncio.get_running_loop().run_in_executor(None, wait, None)
                except BaseException:
                    self._chosen = self._place
                    raise
            yield self._next(self.output)

    def set_epoch(self, epoch: int) -> None:
        """Makes the first batch of this epoch the next one; if the loader is already in the epoch, it continues."""
        epoch = _number("epoch", epoch, 0, 1 << 40)
        if epoch != self._place[0]:
            self._go_to(epoch, 0)
        self._chosen = self._place

    def state_dict(self) -> dict[str, Any]:
        """The loader's position: after the last batch that was given out.  For JSON, or a checkpoint."""
        return {"version": _STATE, "epoch": self._place[0], "number": self._place[1], **self._identity()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from a saved position.  ValueError: it is from a loader with other batches."""
        if state.get("version") != _STATE:
            raise ValueError(f"the state has version {state.get('version')!r}; this pergpu reads {_STATE}")
        for name, own in self._identity().items():
            if state.get(name) != own:
                raise ValueError(f"the state is from a loader with {name} {state.get(name)!r}; this one has {own!r}")
        self._go_to(_number("epoch", state["epoch"], 0, 1 << 40), _number("number", state["number"], 0, self.batches - 1))

    def torch(self) -> Any:
        """The same batches, as tensors, in an IterableDataset for `torch.utils.data.DataLoader(…,
        batch_size=None)`, Lightning and similar libraries.  It moves this loader's position."""
        from ._loader_torch import dataset_of

        return dataset_of(self, lambda: self._iterated("torch"))

    def channel(self, name: str | None = None, *, consumers: int = 1, slots: int = 4, scope: Scope = "sweep") -> Channel:
        """A channel whose slots fit this loader's batches; arguments as for share.Channel.

        With a name, any process that has such a loader may be the first to ask for the channel.  A loader
        has no threads until you ask for a batch.
        """
        from ._loader_feed import channel_for

        return channel_for(self, name, consumers, slots, scope)

    def feed(
        self,
        channels: Channel | Iterable[Channel],
        *,
        on_death: OnDeath = "raise",
        timeout: float | None = None,
        after: Callable[[], object] | None = None,
    ) -> Fed:
        """Sends the batches of one whole `for` to other processes.  When all were taken it closes, and the
        consumers' loops end.

        `channels`: with one channel, each batch goes to one of its consumers; with a list, every batch goes
        to each channel.  Batches are copied once for each channel, with the data's structure, whatever
        `output` is.  state_dict() counts the sent batches.

        `on_death`: when a consumer dies, "raise" PeerDied, or "skip": continue, and return the death in the
        result.  A channel gets no more batches once all its expected consumers came and left.  If that is
        true of all channels, PeerDied is raised, or BrokenPipeError if the consumers closed.  `timeout`: how
        many seconds a batch may wait for a slot, and how long the last batches may wait to be taken; None:
        forever; TimeoutError.  `after`: is called after each batch, for example to save state_dict().

        After an exception, the batch that could not be sent was sent to no consumer, and comes next.
        Consumers get PeerLeft, and you may call feed() again.
        """
        from ._loader_feed import feed

        return feed(self, channels, on_death, timeout, after)

    def close(self) -> None:
        """Ends the threads and workers, if there are any.  Batches stay valid."""
        self._closed = True
        if not self._native.forked:
            self._native.stop()
        if self._map is not None:
            self._map.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        at = "closed" if self._closed else f"at batch {self._place[1]} of {self.batches} of epoch {self._place[0]}"
        return f"<pergpu.share.Loader: {self._rows()} rows, {self.batch_size} a batch, {at}>"

    def _iterated(self, output: Output, goes_on: bool = False) -> Iterator[Any]:
        end = self._begun(goes_on)
        while self._place[0] < end:
            yield self._next(output)

    def _end(self) -> float:
        """The last epoch of a `for` that begins now; an interrupted one would have ended there, too."""
        return math.inf if self.epochs is None else self._end_of(self._place[0])

    def _end_of(self, epoch: int) -> int:
        assert self.epochs is not None
        return (epoch // self.epochs + 1) * self.epochs

    def _begun(self, goes_on: bool) -> float:
        """The end of a `for` that begins now; moves to its first batch, unless it continues."""
        if not (goes_on or self.epochs is None or self._place == self._chosen):
            epoch = self._end_of(self._place[0])
            if self._place[1] or epoch - self._place[0] != self.epochs:
                self._go_to(epoch, 0)
        return self._end()

    def _next(self, output: Output) -> Any:
        try:
            batch, self._place = self._taken(output)
        except BaseException:
            self._chosen = self._place  # the batch was not given out, and comes next
            raise
        return batch

    def _taken(self, output: Output) -> tuple[Any, tuple[int, int]]:
        """The next batch, and the position after it, which the loader does not take yet."""
        convert = _CONVERTERS[output]
        if self._map is None:
            taken = self._current().take(None)
            assert taken is not None
            memory, epoch, number, rows = taken
            parts = [convert(memory, offset, (rows, *shape), dtype) for offset, (shape, dtype) in self._laid_out()]
            return self._shaped(parts), self._behind(epoch, number)
        result = self._map_at_its_place().take(self._gathered)
        parts = [convert(part, 0, part.shape, part.dtype) for part in result.parts]
        return result.shaped(parts), self._behind(result.epoch, result.number)

    def _gathered(self, seconds: float | None) -> Gathered | None:
        """A batch for the function of map."""
        taken = self._current().take(seconds)
        if taken is None:
            return None
        memory, epoch, number, rows = taken
        return [Array(memory, offset, (rows, *shape), dtype) for offset, (shape, dtype) in self._laid_out()], epoch, number

    def _laid_out(self) -> Iterable[tuple[int, tuple[tuple[int, ...], str]]]:
        return zip(self._offsets, self._layout)

    def _behind(self, epoch: int, number: int) -> tuple[int, int]:
        return (epoch, number + 1) if number + 1 < self.batches else (epoch + 1, 0)

    def _mapped(self, function: Callable[..., Any]) -> Map:
        from ._loader_feed import spec_of
        from ._loader_map import Map  # starting processes takes modules that others do without

        kind, parts = spec_of(self)
        return Map(function, self.workers, self.seed, list(self._fields), kind, parts, self.pinned)

    def _map_at_its_place(self) -> Map:
        assert self._map is not None
        self._current()
        if self._map.torn:
            self._go_to(*self._place)
        return self._map

    def _current(self) -> _share.Loader:
        if self._closed:
            raise ValueError("the loader was closed")
        if self._native.forked:  # this process has none of its threads: it begins with its own
            self._native = self._opened()
            self._native.seek(*self._place)
        return self._native

    def _go_to(self, epoch: int, number: int) -> None:
        native = self._current()
        if self._map is None:
            native.seek(epoch, number)
        else:
            self._map.seek(lambda: native.seek(epoch, number))
        self._place = self._chosen = (epoch, number)

    def _opened(self) -> _share.Loader:
        pairs = []
        for name, array in self._fields.items():
            images = self._images.get(name)
            pairs.append((array, None if images is None else images.for_native(array.shape)))
        return _share.Loader(
            tuple(pairs),
            self.batch_size,
            shuffle=self.shuffle,
            seed=self.seed,
            drop_last=self.drop_last,
            shard=self.shard[0],
            shards=self.shard[1],
            ahead=self.ahead,
            threads=self.threads,
            pinned=self.pinned and self._map is None,  # else results are
        )

    def _identity(self) -> dict[str, Any]:
        """The values that determine the batches."""
        return {
            "rows": self._rows(),
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "seed": self.seed,
            "drop_last": self.drop_last,
            "shard": list(self.shard),
        }

    def _rows(self) -> int:
        return next(iter(self._fields.values())).shape[0]


def _number(what: str, value: int, least: int, most: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{what} is {value!r}; expected an integer")
    number = value.__index__()
    if not least <= number <= most:
        raise ValueError(f"{what} is {number}; expected {least} to {most}")
    return number


def _shard(shard: tuple[int, int]) -> tuple[int, int]:
    try:
        index, count = shard
    except (TypeError, ValueError):
        raise TypeError(f"shard is {shard!r}; expected (i, n), for the i-th of n parts") from None
    count = _number("the number of shards", count, 1, (1 << 32) - 1)
    return _number("the shard", index, 0, count - 1), count


def _images_of(transforms: Any, fields: Mapping[Any, Array]) -> dict[Any, Images]:
    if transforms is None:
        return {}
    if None in fields:
        transforms = {None: transforms}
    if not isinstance(transforms, Mapping):
        raise TypeError(f"transforms is {transforms!r}; expected a dict of share.Images by the names of arrays")
    for name, images in transforms.items():
        if name not in fields:
            raise ValueError(f"transforms: there is no array {name!r}; the arrays are {', '.join(map(repr, fields))}")
        if not isinstance(images, Images):
            raise TypeError(f"transforms: {name!r} is {images!r}; expected share.Images(…)")
        array = fields[name]
        if array.dtype != "uint8" or array.ndim not in (3, 4):
            raise ValueError(
                f"transforms: {name!r} is {array.shape} of {array.dtype}; expected uint8 images, (n, height, width, channels) "
                "or (n, height, width)"
            )
        if array.ndim == 4 and array.shape[3] > 4:
            raise ValueError(
                f"transforms: {name!r} is {array.shape}: that would be images of {array.shape[3]} channels. Expected "
                "(n, height, width, channels); numpy.moveaxis(images, 1, -1) converts (n, channels, height, width)"
            )
    return dict(transforms)


def _part(array: Array, images: Images | None) -> tuple[tuple[int, ...], str]:
    """Shape and dtype of a row."""
    return (array.shape[1:], array.dtype) if images is None else (images.shape_of(array.shape), images.dtype)


def _as_numpy(memory: Any, offset: int, shape: tuple[int, ...], dtype: str) -> Any:
    return Array(memory, offset, shape, dtype).numpy()


def _as_torch(memory: Any, offset: int, shape: tuple[int, ...], dtype: str) -> Any:
    return Array(memory, offset, shape, dtype).torch()


def _as_jax(memory: Any, offset: int, shape: tuple[int, ...], dtype: str) -> Any:
    import jax.dlpack

    return jax.dlpack.from_dlpack(Array(memory, offset, shape, dtype))


_CONVERTERS: dict[str, Callable[[Any, int, tuple[int, ...], str], Any]] = {
    "array": Array,
    "numpy": _as_numpy,
    "torch": _as_torch,
    "jax": _as_jax,
}
