"""The origin of a function, as a part of a key: two functions that may return different data have different ones.

It is the folder of its file (or the module), the name, and a digest.  The digest covers the code, the code of
functions of the same module that it calls, and the values bound to it (closures, defaults, arguments of a
partial, the object of a method).  Line numbers, comments and global variables don't count: what a job logs
doesn't change its data.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable
from typing import Any

from .._equal import NotComparable, digest_of_source


def origin_of(function: Callable[..., Any]) -> str:
    """A line, the same in each process that has the same function of the same folder.

    TypeError: a value that can't be compared is bound to it.
    """
    try:
        digest = digest_of_source(function)[:16]
    except NotComparable as error:
        of_type = "" if error.kind is None else f" ({error.kind.__qualname__})"
        raise TypeError(
            f"{error.what}{of_type} can't be compared, so it's unknown whether data of this key is the same: pass plain values "
            "and build the rest in the function, or put it in the key and read it from a global variable"
        ) from error
    core = _function_in(function)
    if core is None:
        kind: Any = function if hasattr(function, "__qualname__") else type(function)
        return f"{getattr(kind, '__module__', '')} {kind.__qualname__} {digest}"
    return f"{_place_of(core)} {core.__qualname__} {digest}"


def _place_of(function: types.FunctionType) -> str:
    """The folder of its file: equal functions of two scripts there are one.  In a notebook or an interactive session,
    where each cell has a separate name, the module."""
    file = function.__code__.co_filename
    return os.path.dirname(os.path.realpath(file)) if os.path.isfile(file) else function.__module__ or ""


def _function_in(what: Any) -> types.FunctionType | None:
    """The Python function that it calls, if there is one."""
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
