"""Parameters that processes train together, without locks (Hogwild).

All arrays of a model are in one segment, with the layout of src/share/parameters.h; its head is JSON:
{"key", "arrays": [[name, dtype, shape, offset in the data], …]}.  The first process writes its values there.
This module needs neither numpy nor torch; it recognizes a torch module only if torch was imported.
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
    """Returns the parameters of `model`, which all processes that ask for `name` share and train together.

    `model`: a torch module on the CPU, or a dict of arrays (numpy, torch, buffers).  A module's parameters
    (and its saved buffers, unless `buffers` is false) become views of the shared memory.  A dict stays
    unchanged: the result has the shared arrays.  The first process writes its model's values there, the
    other models get these values.  Gradients and optimizer state stay in each process.

    `scope`: in a job the name belongs to its sweep, and the memory stays until no job of the sweep can run
    any more.  With "user", and outside of jobs, the name belongs to this user on this machine, and the
    memory is freed when the last process that has it ends.

    ValueError: the model's parameters differ from the first model's.  TypeError: it isn't a model, or is on
    a GPU.  MemoryError: not enough memory.

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
    """Copies of the parameters by name, all of the same moment: numpy arrays, tensors or share.Array, the
    types that the model had."""

    counters: dict[str, int]
    """The counters at that moment."""
    cut_updates: int
    """How many updates so far were cut off, because their process died during them."""
    torn: bool
    """The copy may have partial updates; only if you allowed that."""


class SharedParameters(Mapping[str, Any]):
    """The result of share.parameters(): the shared arrays by name, and the operations that processes do on
    them together.

    An array has the type that the model had: a tensor, a numpy array, else a share.Array.  All processes
    see what you write to it.
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
        """Writes to the array: `shared["w"] += 1` and `shared["w"] = values`, for numpy and torch."""
        if value is not self._views[name]:
            self._views[name][...] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def update(self) -> AbstractContextManager[object]:
        """Marks an update: put `with shared.update():` around code that changes parameters.

        Snapshots contain an update completely or not at all.  Updates do not wait for each other, and only
        briefly for a snapshot: while it copies.  A thread may nest them.

        RuntimeError: the model, or a part of it, has left the shared memory, because of `.to(…)`,
        `.double()`, `.cuda()`, a new layer or similar: its further training would be private.  A large model
        is checked as a whole only in some updates.
        """
        self._check_model(False)
        return self._shared

    def count(self, name: str, by: int = 1) -> int:
        """Adds to the counter atomically; returns its new value.  Counters begin at 0.  There may be 64, with
        names of up to 47 bytes, else ValueError or MemoryError."""
        return self._shared.count(name, by)

    @property
    def counters(self) -> dict[str, int]:
        return self._shared.counters

    def add(self, name: str, values: Any, rows: Any = None) -> None:
        """shared[name] += values, each number atomically, so that processes that add at the same time lose
        nothing.  `rows` (int64): adds only to these rows, which may repeat.

        It is an update.  Several times slower than `+=`.  TypeError: the dtype isn't float32, float64, int32
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
        data = _bytes_of(values, f"the value added to {name}", array.dtype, shape)
        with self._shared:
            self._shared.add(array, data, places)

    def snapshot(self, *, timeout: float = 10.0, torn: bool = False) -> Snapshot:
        """Copies all parameters and counters at one moment, without partial updates, while other processes
        continue.

        It waits for the running updates, at most `timeout` seconds; new updates wait for it.  Writes outside
        of update() may be partly included, number by number.  TimeoutError: a process was inside an update
        all the time.  With `torn` you get the copy anyway, marked as torn.  ValueError: called inside an
        update.  RuntimeError: the model has left the shared memory.
        """
        return self._taken(timeout, torn)[1]

    def save(self, path: str | os.PathLike[str], *, timeout: float = 10.0, metadata: Mapping[str, str] | None = None) -> Snapshot:
        """Writes a snapshot as .safetensors, atomically under its name, and returns it.

        The file's metadata has the `counters` and `cut_updates`, as JSON, and the metadata that you pass.
        Raises the errors of snapshot(); ValueError: the format has no such dtype; OSError: it can't be
        written.
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
        """The pids of the running processes that have these parameters."""
        return self._shared.users

    @property
    def cut_updates(self) -> int:
        """How many updates were cut off, because their process died during them."""
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
    """The user's view of the shared array."""
    tensor: Any
    """For a module: its tensor, which point() moves to the shared memory; else None."""

    def point(self, view: Any) -> None:
        """Makes the model use it."""
        if self.tensor is not None:
            self.tensor.data = view


class _Found(NamedTuple):
    places: list[_Place]
    aliases: dict[str, str]
    """For tied parameters: other name -> name."""
    nbytes: int
    model: Any
    """The torch module; else None."""


class _Model:
    """Whether a module still has the tensors in the shared memory.  Compares the module's structure first,
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
        """Describes the part that is elsewhere.  If not `wholly`, some calls check only the first tensor."""
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
        raise TypeError(f"model is {type(model).__name__}; expected a torch module or a dict of arrays")
    places = []
    at = 0
    for name, value in arrays.items():
        if not isinstance(name, str):
            raise TypeError(f"names of parameters must be strings, not {name!r}")
        try:
            piece = _content.piece_of(value)
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
        if piece is None:
            raise TypeError(f"{name} is {type(value).__name__}; expected an array")
        places.append(_Place(name, at, piece, _viewer(torch, value), tensors.get(name)))
        at += piece.nbytes + -piece.nbytes % _ALIGNMENT
    if not places:
        raise ValueError("the model has no parameters")
    return _Found(places, aliases, at, model if tensors else None)


def _of_module(torch: Any, model: Any, buffers: bool) -> tuple[dict[str, Any], dict[str, str]]:
    """The module's tensors, and other names of the same tensors."""
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
    """The place of each.  ValueError: the models differ; the message shows where."""
    there = {one[0]: (one[1], tuple(one[2])) for one in shared}
    here = {one.name: (one.piece.dtype, one.piece.shape) for one in found.places}
    what = f"parameters {name!r} are already shared by a model that differs"
    for parameter in [*here, *there]:
        if parameter not in there:
            raise ValueError(f"{what}: it has no {parameter}")
        if parameter not in here:
            raise ValueError(f"{what}: it has {parameter}, which this one lacks")
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
    """ValueError: the head is damaged."""
    head = json.loads(shared.head)
    if not isinstance(head, dict) or not isinstance(head.get("arrays"), list) or "key" not in head:
        raise ValueError("the head of the parameters is invalid")
    return head


def _bytes_of(value: Any, what: str, dtype: str, shape: tuple[int, ...] | None) -> bytearray:
    piece = _content.piece_of(value)
    if piece is None:
        raise TypeError(f"{what} is {type(value).__name__}; expected an array")
    fits = len(piece.shape) == 1 if shape is None else piece.shape == shape
    if piece.dtype != dtype or not fits:
        raise ValueError(f"{what} is {piece.dtype} {piece.shape}; expected {dtype} {'in one dimension' if shape is None else shape}")
    data = bytearray(piece.nbytes)
    piece.write(memoryview(data))
    return data
