"""Parameters that processes train together, without locks (Hogwild).

All arrays of a model lie in one segment, which src/share/parameters.h lays out; its head is JSON:
{"key", "arrays": [[name, dtype, shape, offset in the data], …]}.  Who comes first puts its values
there.  Nothing here needs numpy or torch; a torch module is known by torch being imported.
"""

from __future__ import annotations

import json
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, cast

from .. import _share
from .._share import Array
from . import _content, _safetensors
from ._meeting import held_for_sweep, meet, scoped
from ._visit import Scope


_ALIGNMENT = 64
_LOOKED_AT = 32  # tensors at an update, on average: some microseconds


def parameters(model: Any, name: str = "model", *, buffers: bool = True, scope: Scope = "sweep") -> SharedParameters:
    """The parameters of `model`, which all processes that ask for `name` have in common and train together.

    `model`: a torch module on the CPU, whose parameters (and buffers that are saved with it, unless
    `buffers` is false) become views of the shared memory; or a dict of arrays (numpy, torch, buffers),
    which stays as it is: the shared ones are those of the result.  The first process puts the values of
    its model there, the others get these for theirs.  Gradients and the state of an optimizer stay with
    each process.

    `scope`: in a job the name is one of its sweep, and the memory is there until no job of it can run any
    more; with "user", and outside of jobs, the name is one of this user on this machine, and the memory
    is freed when the last process that has it ends.

    ValueError: the model has other parameters than the one that came first.  TypeError: it is no model,
    or lies on a GPU.  MemoryError: there is not so much memory.

    >>> import array
    >>> shared = parameters({"w": array.array("d", [1, 2, 3])}, "an example")
    >>> with shared.update():
    ...     memoryview(shared["w"])[0] += 1
    >>> shared.count("steps"), memoryview(shared.snapshot()["w"]).tolist()
    (1, [2.0, 2.0, 3.0])
    """
    key = scoped(name, scope)
    found = _found(model, buffers)
    memory = meet(
        "parameters",
        key,
        lambda seen: _holds(seen, key),
        lambda label: _made(label, key, found),
        scope=held_for_sweep() if scope == "sweep" else None,
        title=name,
    )
    return SharedParameters(name, memory, found)


class Snapshot(dict[str, Any]):
    """Copies of the parameters by name, all of the same moment: numpy's arrays, tensors or share.Array,
    as the model had them."""

    counters: dict[str, int]
    """Of that moment."""
    cut_updates: int
    """How many updates, from the beginning on, were left half done by a process that died in them."""
    torn: bool
    """Halves of updates are in it; only where that was allowed."""


class SharedParameters(Mapping[str, Any]):
    """What share.parameters() returns: the shared arrays by name, and what processes do with them
    together.

    An array is what the model had in its place: a tensor, an array of numpy, else a share.Array.  What
    is written into it all processes see.
    """

    def __init__(self, name: str, memory: _share.Memory, found: _Found) -> None:
        region, self._shared = _opened(memory)
        self.name = name
        offsets = _agreed(name, _head(self._shared)["arrays"], found)
        places = [one._replace(offset=offsets[one.name]) for one in found.places]
        begin = self._shared.data_offset
        self._places = {one.name: one for one in places}
        self._aliases = found.aliases
        # As long as one of the arrays is there, so is the descriptor that others find the memory by.
        self._arrays = {
            one.name: Array(region, begin + one.offset, one.piece.shape, one.piece.dtype, memory.fileno) for one in places
        }
        self._views = self._with_aliases({one.name: one.view(self._arrays[one.name]) for one in places})
        self._shared.attach()
        for one in places:
            one.point(self._views[one.name])
        self._model = _Model(found.model, {one.name: one.tensor for one in places if one.tensor is not None and one.piece.nbytes})

    def _check_model(self, wholly: bool) -> None:
        left = self._model.left(wholly)
        if left:
            raise RuntimeError(
                f"the model of parameters {self.name!r} is no longer in the shared memory ({left}): move, convert or change it "
                "(.to(), .double(), .cuda(), a new layer, …) before share.parameters(), not after it"
            )

    def __getitem__(self, name: str) -> Any:
        return self._views[name]

    def __setitem__(self, name: str, value: Any) -> None:
        """Writes into the array: `shared["w"] += 1` and `shared["w"] = values`, of numpy and torch."""
        if value is not self._views[name]:
            self._views[name][...] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def update(self) -> AbstractContextManager[object]:
        """An update: `with shared.update():` around what changes parameters.

        Snapshots have all of it or nothing.  Updates do not wait for each other, and not for long for a
        snapshot: while it copies.  A thread may nest them.

        RuntimeError: the model has left the shared memory, as a whole or in part, by `.to(…)`, `.double()`,
        `.cuda()`, a new layer or the like: what it learns from then on is its own.  Of a large model all is
        looked at once in some updates.
        """
        self._check_model(False)
        return self._shared

    def count(self, name: str, by: int = 1) -> int:
        """Adds to the counter, in one step; what it is then.  Counters begin at 0; there may be 64, with
        names of up to 47 bytes, else ValueError or MemoryError."""
        return self._shared.count(name, by)

    @property
    def counters(self) -> dict[str, int]:
        return self._shared.counters

    def add(self, name: str, values: Any, rows: Any = None) -> None:
        """shared[name] += values, each number in one step, so that nothing is lost between processes that
        add at the same time; `rows` (int64): to these rows only, and one may come more than once.

        It is an update.  Several times slower than `+=`.  TypeError: it is not of float32, float64, int32
        or int64.  ValueError: dtype or shape differ.  IndexError: there is no such row.
        """
        array = self._arrays[self._aliases.get(name, name)]
        shape = array.shape
        places = None
        if rows is not None:
            places = _bytes_of(rows, "rows", "int64", None)
            if not shape:
                raise ValueError(f"{name} has no rows")
            shape = (len(places) // 8, *shape[1:])
        data = _bytes_of(values, f"what is added to {name}", array.dtype, shape)
        with self._shared:
            self._shared.add(array, data, places)

    def snapshot(self, *, timeout: float = 10.0, torn: bool = False) -> Snapshot:
        """Copies of all parameters and counters at one moment, with no half of an update in them, while
        others go on.

        It waits for the updates under way, at most `timeout` seconds; those that would begin wait for it.
        What is written outside of update() may be there in part, number by number.  TimeoutError: a
        process has been inside an update all the time; with `torn` the copy is taken all the same, and
        says so.  ValueError: called inside an update.  RuntimeError: the model has left the shared memory.
        """
        return self._taken(timeout, torn)[1]

    def save(self, path: str | os.PathLike[str], *, timeout: float = 10.0, metadata: Mapping[str, str] | None = None) -> Snapshot:
        """Writes a snapshot as .safetensors, under its name in one step, and returns it.

        The file's metadata has the `counters` and `cut_updates`, as JSON, and what is given here.
        Errors of snapshot(); ValueError: the format has no such dtype; OSError: it cannot be written.
        """
        memory, taken = self._taken(timeout, False)
        data = memoryview(memory)
        arrays = {}
        for name in taken:
            place = self._places[self._aliases.get(name, name)]
            begin = place.offset
            arrays[name] = _safetensors.Stored(place.piece.dtype, place.piece.shape, data[begin : begin + place.piece.nbytes])
        said = {"counters": json.dumps(taken.counters), "cut_updates": json.dumps(taken.cut_updates), **(metadata or {})}
        _safetensors.write(path, arrays, said)
        return taken

    @property
    def users(self) -> list[int]:
        """The pids of the processes that have these parameters and are alive."""
        return self._shared.users

    @property
    def cut_updates(self) -> int:
        """How many updates were left half done by a process that died in them."""
        return self._shared.cut_updates

    def __repr__(self) -> str:
        return f"<pergpu SharedParameters {self.name!r}: {len(self)} arrays, {self._shared.nbytes} bytes>"

    def _taken(self, timeout: float, torn: bool) -> tuple[bytearray, Snapshot]:
        self._check_model(True)
        memory = bytearray(self._shared.nbytes)
        counters, cut_updates, is_torn = self._shared.snapshot(memory, timeout, torn)
        copies = {}
        for name, place in self._places.items():
            copies[name] = place.view(Array(memory, place.offset, place.piece.shape, place.piece.dtype))
        taken = Snapshot(self._with_aliases(copies))
        taken.counters, taken.cut_updates, taken.torn = counters, cut_updates, is_torn
        return memory, taken

    def _with_aliases(self, values: dict[str, Any]) -> dict[str, Any]:
        return {**values, **{alias: values[name] for alias, name in self._aliases.items()}}


# ---- a model, as it lies in memory ----


class _Place(NamedTuple):
    name: str
    offset: int
    piece: _content.Piece
    view: Callable[[Array], Any]
    """What the user gets of the shared array."""
    tensor: Any
    """Of a module: what is to use it; else None."""

    def point(self, view: Any) -> None:
        """Makes the model use it."""
        if self.tensor is not None:
            self.tensor.data = view


class _Found(NamedTuple):
    places: list[_Place]
    aliases: dict[str, str]
    """Of tied parameters: other name -> name."""
    nbytes: int
    model: Any
    """The torch module; else None."""


class _Model:
    """Whether a module still has the tensors that lie in the shared memory.  What it was made of is compared first,
    because that is quick."""

    def __init__(self, model: Any, tensors: dict[str, Any]) -> None:
        self._model: Callable[[], Any] | None = None if model is None else weakref.ref(model)
        buffers = set() if model is None else {id(buffer) for buffer in model.buffers()}  # modules replace these by themselves
        parameters = {name: tensor for name, tensor in tensors.items() if id(tensor) not in buffers}
        self._tensors = [(tensor, tensor.data_ptr()) for tensor in parameters.values()]
        self._names = {tensor.data_ptr(): name for name, tensor in parameters.items()}
        self._parts = self._parts_of(model)
        self._updates = 0

    def _parts_of(self, model: Any) -> list[tuple[dict[str, Any], str, Any]]:
        if model is None:
            return []
        held = [held for module in model.modules() for held in (module._modules, module._parameters)]
        return [(parts, name, part) for parts in held for name, part in parts.items()]

    def left(self, wholly: bool) -> str:
        """What of it is elsewhere, for people.  If not `wholly`, at some calls the first tensor alone is looked at."""
        self._updates += 1
        some = self._tensors
        if not wholly and self._updates % (1 + len(self._tensors) // _LOOKED_AT):
            some = some[:1]
        if all(tensor.data_ptr() == at for tensor, at in some):
            if some is not self._tensors or all(parts.get(name) is part for parts, name, part in self._parts):
                return ""
        model = self._model() if self._model is not None else None  # None: the user has its layers
        tensors = model.parameters() if model is not None else [tensor for tensor, _ in self._tensors]
        has = {tensor.data_ptr() for tensor in tensors}
        missing = [name for at, name in self._names.items() if at not in has]
        if not missing:
            self._parts = self._parts_of(model)
            return ""
        return f"{missing[0]} and {len(missing) - 1} more" if len(missing) > 1 else missing[0]


def _found(model: Any, buffers: bool) -> _Found:
    torch = sys.modules.get("torch")
    aliases: dict[str, str] = {}
    tensors: dict[str, Any] = {}
    if torch is not None and isinstance(model, torch.nn.Module):
        arrays, aliases = _of_module(torch, model, buffers)
        tensors = arrays
    elif isinstance(model, Mapping):
        arrays = dict(model)
    else:
        raise TypeError(f"a model is a torch module or a dict of arrays, not {type(model).__name__}")
    places = []
    at = 0
    for name, value in arrays.items():
        if not isinstance(name, str):
            raise TypeError(f"names of parameters are strings, not {name!r}")
        try:
            piece = _content.piece_of(value)
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
        if piece is None:
            raise TypeError(f"{name}: an array was expected, not {type(value).__name__}")
        places.append(_Place(name, at, piece, _viewer(torch, value), tensors.get(name)))
        at += piece.nbytes + -piece.nbytes % _ALIGNMENT
    if not places:
        raise ValueError("the model has no parameters")
    return _Found(places, aliases, at, model if tensors else None)


def _of_module(torch: Any, model: Any, buffers: bool) -> tuple[dict[str, Any], dict[str, str]]:
    """Its tensors, and other names of the same ones."""
    own = {id(tensor): name for name, tensor in model.named_parameters()}
    wanted = dict(own)
    if buffers:
        wanted.update((id(tensor), name) for name, tensor in model.named_buffers())
    arrays: dict[str, Any] = {}
    aliases: dict[str, str] = {}
    names: dict[int, str] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) in names:
            aliases[name] = names[id(tensor)]
        elif id(tensor) in wanted:
            arrays[name], names[id(tensor)] = tensor, name
    for name, tensor in model.named_parameters():
        if id(tensor) not in names:
            arrays[name] = tensor
    return arrays, aliases


def _viewer(torch: Any, value: Any) -> Callable[[Array], Any]:
    if torch is not None and isinstance(value, torch.Tensor):
        return Array.torch
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return Array.numpy
    return lambda array: array


def _agreed(name: str, shared: list[list[Any]], found: _Found) -> dict[str, int]:
    """Where each of them lies.  ValueError: the models differ, and where."""
    there = {one[0]: (one[1], tuple(one[2])) for one in shared}
    here = {one.name: (one.piece.dtype, one.piece.shape) for one in found.places}
    what = f"parameters {name!r} are shared already, by a model that differs"
    for parameter in [*here, *there]:
        if parameter not in there:
            raise ValueError(f"{what}: it has no {parameter}")
        if parameter not in here:
            raise ValueError(f"{what}: it has {parameter}, which this one has not")
        if here[parameter] != there[parameter]:
            (theirs, other), (ours, shape) = there[parameter], here[parameter]
            raise ValueError(f"{what}: {parameter} is {theirs} {other} there, and {ours} {shape} here")
    return {one[0]: one[3] for one in shared}


# ---- the memory ----


def _made(label: str, key: str, found: _Found) -> _share.Memory:
    arrays = [[one.name, one.piece.dtype, one.piece.shape, one.offset] for one in found.places]
    head = json.dumps({"key": key, "arrays": arrays}).encode()
    memory = _share.Memory.create(label, _share.Parameters.size(len(head), found.nbytes))
    region = memory.map("shared")
    shared = _share.Parameters.lay_out(region, head, found.nbytes)
    data = memoryview(cast(Any, region))[shared.data_offset :]
    for one in found.places:
        one.piece.write(data[one.offset : one.offset + one.piece.nbytes])
    shared.complete()
    return memory


def _holds(memory: _share.Memory, key: str) -> bool:
    return bool(_head(_opened(memory)[1])["key"] == key)


def _opened(memory: _share.Memory) -> tuple[_share.Region, _share.Parameters]:
    region = memory.map("shared")
    return region, _share.Parameters(region)


def _head(shared: _share.Parameters) -> dict[str, Any]:
    """ValueError: it is damaged."""
    head = json.loads(shared.head)
    if not isinstance(head, dict) or not isinstance(head.get("arrays"), list) or "key" not in head:
        raise ValueError("the head of the parameters makes no sense")
    return head


def _bytes_of(value: Any, what: str, dtype: str, shape: tuple[int, ...] | None) -> bytearray:
    piece = _content.piece_of(value)
    if piece is None:
        raise TypeError(f"{what}: an array was expected, not {type(value).__name__}")
    fits = len(piece.shape) == 1 if shape is None else piece.shape == shape
    if piece.dtype != dtype or not fits:
        raise ValueError(f"{what} is {piece.dtype} {piece.shape}: {dtype} {'in one row' if shape is None else shape} was expected")
    data = bytearray(piece.nbytes)
    piece.write(memoryview(data))
    return data
