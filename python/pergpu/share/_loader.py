"""Batches of shared data, gathered by threads that need no interpreter lock.

A loader has one position, the batch that comes next; whatever asks for batches moves it on.  A batch
lies in a slot that is filled anew when the last view of it is gone.
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
    """Batches of a loader from where it stands."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __iter__(self) -> Iterator[Any]:
        return self._loader._iterated(self._loader.output, True)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._loader._waiting(True)


class Loader:
    """Rows of arrays in batches: shuffled, transformed, prepared ahead by threads of C++.

        loader = share.Loader(share.dataset("digits.npz"), batch_size=64, seed=1, output="torch")
        for epoch in range(10):
            for batch in loader:                 # {"x": …, "y": …}
                train(batch["x"], batch["y"])

    `data`: a dict of arrays, a tuple of arrays, or an array (of share, numpy, torch on the CPU, or
    anything with a buffer), each with the same number of rows, which are its first dimension; batches
    look like it.  It is read where it lies, in the middle of the training.

    `batch_size`: rows; the last batch of an epoch has the rest of them, or with `drop_last` is left out.
    `shuffle`, `seed`: equal ones give the same order, everywhere.  `shard=(i, n)`: the i-th of n parts of
    each epoch, which are disjoint and complete.  `epochs`: how many one `for` goes over, None: it never
    ends.

    `transforms`: by name (by number, of a tuple; of a single array just one), Images.  `output`: what
    arrays of a batch are: share.Array, or of numpy, torch, jax, all without a copy.

    `map`: a function of a batch, with arrays of numpy, that gives an array, or a dict or tuple of arrays, of
    any shape; it runs in `workers` processes (1).  Others have to find it by its name: at the top level of
    a module or of a script, whose own work is then under `if __name__ == "__main__":`.  The batch is its own
    to change.  If it has a parameter `seed`, that is a number (32 bits) which depends on the loader's seed,
    the epoch and the batch only.  What it raises is raised here, caused by the worker's traceback; PeerDied: a
    worker died.  Either way the batch was not given out and comes next.

    `threads`: at most so many; with the workers never more than the cores this process may use, less one that is left
    for the training (but one thread and one worker); None: as many as that.  `ahead`: so many batches are prepared beside those that you
    hold, None: one more than threads, and two more at each worker.  You may keep as many as there is memory for; they
    do not change.
    `pinned`: batches lie in memory that CUDA copies from by itself; keep a batch until its copy is over.

    TypeError, ValueError: what is wrong with the arguments; MemoryError: there is not so much.  OSError:
    there is no CUDA to pin memory with (with map, that is told by the first batch).
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
            raise ValueError(f"output is {output!r}: {', '.join(repr(one) for one in _CONVERTERS)} were expected")
        self.batch_size = _number("batch_size", batch_size, 1, (1 << 32) - 1)
        self.seed = _number("seed", seed, 0, (1 << 64) - 1)
        self.epochs = None if epochs is None else _number("epochs", epochs, 1, 1 << 40)
        self.shuffle, self.drop_last = bool(shuffle), bool(drop_last)
        self.shard = _shard(shard)
        self.output = output
        budget = max(1, cores() - 1)
        self.workers = 0 if map is None else min(max(1, budget - 1), _number("workers", 1 if workers is None else workers, 1, 1024))
        if map is None and workers is not None:
            raise ValueError(f"workers is {workers!r}, but there is no map: they are the processes that its function runs in")
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
        """Of an epoch."""

    @property
    def epoch(self) -> int:
        """That of the next batch; the first is 0."""
        return self._place[0]

    @property
    def number(self) -> int:
        """That of the next batch, in its epoch."""
        return self._place[1]

    def __len__(self) -> int:
        """The batches of one whole `for`."""
        if self.epochs is None:
            raise TypeError("this loader goes on for ever: `batches` are those of an epoch")
        return self.batches * self.epochs

    def __iter__(self) -> Iterator[Any]:
        """The batches of an epoch, or of `epochs` of them.

        After a `break` the next `for` starts over, with the next epoch: it has another order, so no rows
        are seen more often than others.  With epochs=None, and after load_state_dict(), set_epoch() or an exception of
        the loader, it goes on; rest() goes on in any case."""
        return self._iterated(self.output)

    def __aiter__(self) -> AsyncIterator[Any]:
        """The same, where nobody waits but who asks."""
        return self._waiting(False)

    def rest(self) -> Rest:
        """What a `for` that was left by `break` had still to come: `for batch in loader.rest()`, or `async for`."""
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
        """The next batch is the first of this epoch; where the loader is in it already, it goes on."""
        epoch = _number("epoch", epoch, 0, 1 << 40)
        if epoch != self._place[0]:
            self._go_to(epoch, 0)
        self._chosen = self._place

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands: behind the batch that was given out last.  For JSON, or a checkpoint."""
        return {"version": _STATE, "epoch": self._place[0], "number": self._place[1], **self._identity()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from there.  ValueError: it is that of a loader that has other batches."""
        if state.get("version") != _STATE:
            raise ValueError(f"a state of version {state.get('version')!r}: this pergpu reads {_STATE}")
        for name, own in self._identity().items():
            if state.get(name) != own:
                raise ValueError(f"the state is of a loader with {name} {state.get(name)!r}, this one has {own!r}")
        self._go_to(_number("epoch", state["epoch"], 0, 1 << 40), _number("number", state["number"], 0, self.batches - 1))

    def torch(self) -> Any:
        """The same batches, of tensors, as an IterableDataset for `torch.utils.data.DataLoader(…,
        batch_size=None)`, Lightning and their like.  It moves this loader's position."""
        from ._loader_torch import dataset_of

        return dataset_of(self, lambda: self._iterated("torch"))

    def channel(self, name: str | None = None, *, consumers: int = 1, slots: int = 4, scope: Scope = "sweep") -> Channel:
        """A channel whose slots fit the batches of this loader; the arguments are those of share.Channel.

        With a name, every process that has such a loader may be the first to ask for it: a loader of which
        no batch was asked for has no threads.
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
        """Sends the batches of one whole `for` to other processes; when all were taken it closes, and their
        iteration ends.

        `channels`: of a channel, each batch goes to one of its consumers; of several in a list, every
        batch goes to each of them.  Batches are copied once for each channel, as arrays, dicts or tuples
        of them like the data, whatever `output` is; state_dict() counts what was sent.

        `on_death`: of a consumer that died, "raise" PeerDied, or "skip": go on, and return it in the
        result.  A channel whose consumers have all come and are all gone gets no more; when that is so of
        all channels, it is PeerDied, or BrokenPipeError where they have closed.  `timeout`: seconds that a
        batch may wait for a slot, and the last ones until they are taken, None: for ever; TimeoutError.
        `after`: is called after each batch, to save state_dict(), say.

        After an exception the batch that could not be sent was sent to nobody, and comes next; consumers
        are told that this process left (PeerLeft), and feed() may be called again.
        """
        from ._loader_feed import feed

        return feed(self, channels, on_death, timeout, after)

    def close(self) -> None:
        """Ends the threads and workers, if there are any.  Batches stay as they are."""
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
        """The epoch before which a `for` ends that begins now; one that was interrupted ended there, too."""
        return math.inf if self.epochs is None else self._end_of(self._place[0])

    def _end_of(self, epoch: int) -> int:
        assert self.epochs is not None
        return (epoch // self.epochs + 1) * self.epochs

    def _begun(self, goes_on: bool) -> float:
        """The end of a `for` that begins now, with the first batch of a `for` unless it goes on."""
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
        """The next batch, and the place behind it, where the loader is not yet."""
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
        """What makes batches those that they are."""
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
        raise TypeError(f"{what} is {value!r}: an integer was expected")
    number = value.__index__()
    if not least <= number <= most:
        raise ValueError(f"{what} is {number}: {least} to {most} were expected")
    return number


def _shard(shard: tuple[int, int]) -> tuple[int, int]:
    try:
        index, count = shard
    except (TypeError, ValueError):
        raise TypeError(f"shard is {shard!r}: (i, n) was expected, the i-th of n parts") from None
    count = _number("the number of shards", count, 1, (1 << 32) - 1)
    return _number("the shard", index, 0, count - 1), count


def _images_of(transforms: Any, fields: Mapping[Any, Array]) -> dict[Any, Images]:
    if transforms is None:
        return {}
    if None in fields:
        transforms = {None: transforms}
    if not isinstance(transforms, Mapping):
        raise TypeError(f"transforms is {transforms!r}: a dict was expected, of share.Images by the names of arrays")
    for name, images in transforms.items():
        if name not in fields:
            raise ValueError(f"transforms: there is no array {name!r}, there are {', '.join(map(repr, fields))}")
        if not isinstance(images, Images):
            raise TypeError(f"transforms: {name!r} is {images!r}: share.Images(…) was expected")
        array = fields[name]
        if array.dtype != "uint8" or array.ndim not in (3, 4):
            raise ValueError(
                f"transforms: {name!r} is {array.shape} of {array.dtype}: images are uint8, (n, height, width, channels) "
                "or (n, height, width)"
            )
        if array.ndim == 4 and array.shape[3] > 4:
            raise ValueError(
                f"transforms: {name!r} is {array.shape}: that would be images of {array.shape[3]} channels. Expected is "
                "(n, height, width, channels); numpy.moveaxis(images, 1, -1) makes it of (n, channels, height, width)"
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
