"""Where a function comes from, as a part of a key: two functions that may return different data don't have the same.

It is the folder of its file (or the module), the name, and a digest: of the code, of the code of functions of the same module that it
calls, and of plain values that belong to it (closures, defaults, arguments of a partial).  Line numbers and
comments don't count, and neither do global variables: what a job writes into its log is no other data.
"""

from __future__ import annotations

import hashlib
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

_PLAIN = (type(None), bool, int, float, complex, str, bytes)


def origin_of(function: Callable[..., Any]) -> str:
    """A line, the same in each process that has the same function of the same folder."""
    digest = hashlib.sha256()
    for word in _words(function, set()):
        digest.update(word.encode("utf-8", "surrogatepass") + b"\0")
    core = _function_in(function)
    if core is None:
        kind: Any = function if hasattr(function, "__qualname__") else type(function)
        return f"{getattr(kind, '__module__', '')} {kind.__qualname__} {digest.hexdigest()[:16]}"
    return f"{_place_of(core)} {core.__qualname__} {digest.hexdigest()[:16]}"


def _place_of(function: types.FunctionType) -> str:
    """The folder of its file: there, equal functions of two scripts are one.  Of a notebook or an interactive session,
    where each piece has a name of its own, the module."""
    file = function.__code__.co_filename
    return os.path.dirname(os.path.realpath(file)) if os.path.isfile(file) else function.__module__ or ""


def _function_in(what: Any) -> types.FunctionType | None:
    """The function of Python that is called with it, where there is one."""
    for _ in range(100):
        if isinstance(what, types.FunctionType):
            return what
        if isinstance(what, types.MethodType):
            what = what.__func__
        elif _is_partial(what):
            what = what.func
        elif hasattr(what, "__wrapped__"):
            what = what.__wrapped__
        elif isinstance(what, type) or isinstance(what, types.BuiltinFunctionType):
            return None
        else:
            what = getattr(type(what), "__call__", None)
    return None


def _is_partial(what: Any) -> bool:
    functools = sys.modules.get("functools")
    return functools is not None and isinstance(what, functools.partial)


def _words(what: Any, seen: set[int]) -> Iterator[str]:
    """What tells it from others."""
    if isinstance(what, _PLAIN):
        yield f"{type(what).__name__} {what!r}"
    elif isinstance(what, (tuple, frozenset)):
        parts = [" ".join(_words(one, seen)) for one in what]
        yield f"{type(what).__name__} {len(parts)}"
        yield from parts if isinstance(what, tuple) else sorted(parts)
    elif isinstance(what, types.CodeType):
        yield f"code {what.co_name} {what.co_argcount} {what.co_varnames} {what.co_names} {what.co_code.hex()}"
        yield from _words(what.co_consts, seen)
    elif id(what) in seen:
        yield "again"
    elif isinstance(what, types.FunctionType):
        seen.add(id(what))
        yield f"function {what.__qualname__}"
        yield from _words(what.__code__, seen)
        yield from _words(what.__defaults__, seen)
        for name, value in sorted((what.__kwdefaults__ or {}).items()):
            yield from (name, *_words(value, seen))
        for name, value in _used(what):
            yield from (name, *_words(value, seen))
    elif _is_partial(what):
        yield from _words(what.func, seen)
        yield from _words(what.args, seen)
        for name, value in sorted(what.keywords.items()):
            yield from (name, *_words(value, seen))
    else:
        function = _function_in(what)
        if function is not None and function is not what and not isinstance(what, type):
            yield from _words(function, seen)
        yield getattr(what, "__qualname__", type(what).__qualname__)


def _used(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Values around the function, and functions of its module."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield name, cell.cell_contents
        except ValueError:  # it has no value yet
            continue
    for name in sorted(_globals_in(function.__code__)):
        value = function.__globals__.get(name)
        if isinstance(value, types.FunctionType) and value.__module__ == function.__module__:
            yield name, value


def _globals_in(code: types.CodeType) -> set[str]:
    import dis

    names = {one.argval for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _globals_in(constant)
    return names
