"""The program of a worker for a loader's `map`: batches come through one channel, results go through another.

It ends when the batches end.  It is killed when the process that sends them is gone, even inside the function.
The function's exception is sent in place of a result.  If a result does not fit into a slot, the worker makes a
channel with larger slots; a last item in the old channel has its descriptor, by which the other side opens it.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Mapping
from functools import partial
from typing import Any, Callable

from .. import _share
from .._share import Array, Item
from . import _loader_map
from ._channel import Channel
from ._map_worker import RESULT_SLOTS
from ._peers import PeerDied
from ._rows import array_of


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    begin, batches, results, life = map(int, sys.argv[2:6])
    _die_with(life)
    out = _Results(Channel.from_fd(results))
    try:
        with Channel.from_fd(batches) as channel:
            consumer = channel.consumer()
        try:
            work = _Work(begin)
        except Exception as error:
            out.fail(None, error)
        else:
            for item in consumer:
                work.do(item, out)
    except (PeerDied, BrokenPipeError):
        return  # nobody is left to tell
    out.close()


def _die_with(life: int) -> None:
    """The other end of this pipe belongs to the loader's process, and closes when it ends."""
    os.set_inheritable(life, False)
    try:
        fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
    except OSError:  # in a sandbox: it ends with the next batch
        return
    try:
        os.read(life, 1)
    except BlockingIOError:
        return
    os._exit(1)  # it has ended before


class _Work:
    """The function, and the form of its arguments."""

    def __init__(self, begin: int) -> None:
        with open(begin, "rb") as file:
            file.seek(0)
            given = pickle.loads(file.read())
        _become(given["main"])
        self._function: Callable[..., Any] = pickle.loads(given["function"])
        self._takes_seed: bool = given["takes_seed"]
        self._names: list[Any] = given["names"]
        self._kind: str = given["kind"]
        self._kept: set[tuple[int, int]] = set()
        self._copies = False  # the function keeps arrays that it gets: it gets copies

    def do(self, item: Item, out: _Results) -> None:
        ticket, _, _, seed = memoryview(item[0]).tolist()
        try:
            out.put(ticket, self._function(self._batch(ticket, item), **({"seed": seed} if self._takes_seed else {})))
        except (PeerDied, BrokenPipeError):
            if out.is_over:
                raise
            out.fail(ticket, sys.exc_info()[1])
        except Exception as error:
            out.fail(ticket, error)
        item.release()
        if self._kept:  # a slot that is never given back would be missed
            import gc

            gc.collect()
            self._copies = bool(self._kept)

    def _batch(self, ticket: int, item: Item) -> Any:
        parts = []
        for at in range(1, len(item)):
            part: Array = item[at]
            if self._copies:
                parts.append(part.numpy().copy())
                continue
            self._kept.add((ticket, at))
            parts.append(Array(part, 0, part.shape, part.dtype, partial(self._kept.discard, (ticket, at))).numpy())
        if self._kind == "dict":
            return dict(zip(self._names, parts))
        return tuple(parts) if self._kind == "tuple" else parts[0]


def _become(main: dict[str, Any]) -> None:
    """Sets the parent's module search path, and loads its script as a module if needed."""
    from multiprocessing import spawn

    _loader_map.reading_main = True
    try:
        spawn.prepare(main)
    finally:
        _loader_map.reading_main = False


class _Results:
    """The channel for results."""

    def __init__(self, channel: Channel) -> None:
        self.is_over = False
        self._left: list[Channel] = []  # whose descriptors the other side may still have to open
        self._enter(channel)

    def _enter(self, channel: Channel) -> None:
        self._channel = channel
        self._bytes: int = channel.describe()["slot_bytes"]
        self._out = channel.producer()

    def put(self, ticket: int, result: Any) -> None:
        """TypeError, ValueError: it can't be sent."""
        if isinstance(result, Mapping):
            kind, names, values = "dict", list(result), list(result.values())
        elif isinstance(result, (tuple, list)):
            kind, names, values = "tuple", [], list(result)
        else:
            kind, names, values = "array", [], [result]
        words = [f"{name!r} of it" for name in names] or ([f"number {at} of it" for at in range(len(values))] if kind == "tuple" else ["it"])
        self._send((kind, ticket, names), [_sendable(word, value) for word, value in zip(words, values)])

    def fail(self, ticket: int | None, error: BaseException | None) -> None:
        assert error is not None
        begin = error.__traceback__ and error.__traceback__.tb_next  # our own line is no news
        text = "".join(traceback.format_exception(type(error), error, begin))
        words = f"{type(error).__qualname__}: {error}"
        pickled: bytes | None
        try:
            pickled = pickle.dumps(error)
            if type(pickle.loads(pickled)) is not type(error):
                pickled = None
        except Exception:
            pickled = None
        self._send(("error", ticket), [pickle.dumps((pickled, words, text))])

    def close(self) -> None:
        self._out.close()

    def _send(self, head: tuple[Any, ...], parts: list[Any]) -> None:
        value = (pickle.dumps(head), *parts)
        need = _share.size_of_spec(_share.spec_of_example(value))
        if need > self._bytes:
            self._move(need + need // 4)
        self._put(value)
        self._left = [one for one in self._left if one.describe()["consumers"][0]["state"] == "vacant"]

    def _move(self, slot_bytes: int) -> None:
        channel = Channel(slots=RESULT_SLOTS, slot_bytes=slot_bytes)
        self._put((pickle.dumps(("moved", channel.fileno())),))
        self._out.close()
        self._left.append(self._channel)
        self._enter(channel)

    def _put(self, value: tuple[Any, ...]) -> None:
        try:
            self._out.put(value)
        except (PeerDied, BrokenPipeError):
            self.is_over = True
            raise


def _sendable(words: str, value: Any) -> Any:
    """The value in a form that a channel's put() takes."""
    try:
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            if value.device.type != "cpu":
                raise TypeError(f"it is on {value.device}; results of map must be in CPU memory")
            value = value.detach().contiguous()
            return array_of("it", value) if value.dim() else value.numpy()
        _share.spec_of_example((value,))
        return value
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"map's return value: {words} is {type(value).__name__}; expected an array, or a dict or tuple of arrays ({error})"
        ) from None
