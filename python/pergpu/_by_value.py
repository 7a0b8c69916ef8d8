"""Reducers for objects of a script that cloudpickle can't pickle, or that change on the way: functions with a
cache, generic functions, cached properties, named tuples, and the markers that dataclasses compare by identity."""

from __future__ import annotations

import collections
import dataclasses
import functools
import sys
import types
from collections.abc import Callable
from typing import Any

from cloudpickle import cloudpickle

Cached: Any = type(functools.lru_cache(len))
_MARKS = {
    id(value): name
    for name, value in vars(dataclasses).items()
    if type(value).__module__ == "dataclasses" and not isinstance(value, type)
}


def reduced(obj: Any, goes_by_value: str | None = "__main__") -> Any:
    """A value as __reduce__ returns it; None: leave it to pickle or cloudpickle.  `goes_by_value`: the module whose
    names the reader may not have."""
    if id(obj) in _MARKS:
        return getattr, (dataclasses, _MARKS[id(obj)])
    kind = type(obj)
    if kind is Cached and not _is_found(obj, goes_by_value):
        return _cached, (obj.__wrapped__, obj.cache_parameters())
    if kind is functools.cached_property:
        return functools.cached_property, (obj.func,), {"attrname": obj.attrname}
    if kind is functools.singledispatchmethod:  # from 3.13 on it has a cache of weak references
        return functools.singledispatchmethod, (obj.func,), {"dispatcher": obj.dispatcher}
    if kind is types.FunctionType and hasattr(obj, "registry") and hasattr(obj, "_clear_cache"):
        if not _is_found(obj, goes_by_value):
            registry = dict(obj.registry)
            return _generic, (registry.pop(object), registry)
    if kind is type and obj.__bases__ == (tuple,) and hasattr(obj, "_field_defaults") and not _is_found(obj, goes_by_value):
        return _of_named_tuple(obj)
    return None


def with_names(obj: type, reduced: Any) -> Any:
    """Adds the names to a class as cloudpickle reduces it.  cloudpickle leaves out the qualified name, and some
    versions the module if a base class has one."""
    if isinstance(reduced, tuple) and len(reduced) > 2 and isinstance(reduced[2], tuple) and isinstance(reduced[2][0], dict):
        reduced[2][0].setdefault("__module__", obj.__module__)
        reduced[2][0].setdefault("__qualname__", obj.__qualname__)
    return reduced


def of_result(obj: type, reduced: Any) -> Any:
    """The same for a class in a result: if the reader has the class, the reader's stays unchanged."""
    reduced = with_names(obj, reduced)
    if isinstance(reduced, tuple) and len(reduced) == 6:
        return (*reduced[:2], (reduced[5], reduced[2]), None, None, _set_state_of_new)
    return reduced


def _set_state_of_new(made: type, how_and_state: Any) -> None:
    set_state, state = how_and_state
    if find(sys.modules["__main__"], state[0].get("__qualname__", made.__qualname__)) is not made:
        set_state(made, state)


def _is_found(obj: Any, goes_by_value: str | None) -> bool:
    """Whether the reader of the pickle finds the object by its name."""
    if obj.__module__ == goes_by_value:
        return False
    return find(sys.modules.get(obj.__module__), obj.__qualname__) is obj


def find(module: Any, qualified_name: str) -> Any:
    """The object with this name, such as a class in a class; None: there is none."""
    found = module
    for name in qualified_name.split("."):
        found = getattr(found, name, None)
    return found


def _cached(function: Callable[..., Any], parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _generic(function: Callable[..., Any], implementations: dict[type, Callable[..., Any]]) -> Any:
    generic = functools.singledispatch(function)
    for kind, implementation in implementations.items():
        generic.register(kind, implementation)
    return generic


def _of_named_tuple(obj: Any) -> Any:
    """cloudpickle makes the class by its metaclass, which typing.NamedTuple refuses."""
    plain = vars(collections.namedtuple(obj.__name__, obj._fields))
    its_own = {name: value for name, value in vars(obj).items() if name not in plain}
    state = {**its_own, "__doc__": obj.__doc__, "__qualname__": obj.__qualname__}
    defaults = tuple(obj._field_defaults.values())
    known_as = cloudpickle._get_or_create_tracker_id(obj)
    made = (known_as, obj.__name__, obj.__module__, obj._fields, defaults)
    return _named_tuple, made, state, None, None, _set_attributes


def _named_tuple(known_as: str, name: str, module: str, fields: tuple[str, ...], defaults: tuple[Any, ...]) -> Any:
    made = collections.namedtuple(name, fields, defaults=defaults, module=module)  # type: ignore[misc]
    return cloudpickle._lookup_class_or_track(known_as, made)


def _set_attributes(made: Any, state: dict[str, Any]) -> None:
    for name, value in state.items():
        setattr(made, name, value)
