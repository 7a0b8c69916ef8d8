"""Converts values to TOML: only the types that sweep files hold."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def text(value: str) -> str:
    """A basic string.

    >>> print(text('a "b"'))
    "a \\"b\\""
    """
    value = str.__str__(value)  # of an enumerator its value
    try:
        value.encode()
    except UnicodeEncodeError:
        raise TypeError(f"{value!r} can't be encoded as UTF-8") from None
    letters = (_ESCAPES.get(c) or (f"\\u{ord(c):04x}" if ord(c) < 32 or ord(c) == 127 else c) for c in value)
    return '"' + "".join(letters) + '"'


def key(name: str) -> str:
    """A name on the left of `=`, with quotes if needed.  TypeError: it isn't a string."""
    if not isinstance(name, str):
        raise TypeError(f"{name!r} is used as a name; names must be strings")
    return name if _BARE.match(name) else text(name)


class IntegerTooLarge(TypeError):
    """TOML's integers have 64 bits; JSON's have no limit."""


def plain(what: Any, name: str, null: bool = False) -> Any:
    """The same value in JSON types.  `name`: the value's name, for the error;
    `null`: whether it may be None.

    TypeError: a sweep file can't hold it.
    """
    if hasattr(what, "tolist"):
        what = what.tolist()  # of numpy: one number, or lists of them
    if isinstance(what, bool):
        return what
    if isinstance(what, int):
        return int(what)
    if isinstance(what, float):
        if not math.isfinite(what):
            raise TypeError(f"{name} is {what}, which a sweep file cannot hold")
        return float(what)
    if isinstance(what, str):
        return str.__str__(what)  # of an enumerator its value
    if isinstance(what, Mapping):
        for k in what:
            key(k)
        return {str.__str__(k): plain(v, f"{name}.{k}", null) for k, v in what.items()}
    if isinstance(what, (list, tuple, range)):
        return [plain(one, name, null) for one in what]
    if hasattr(what, "__fspath__"):
        return what.__fspath__()
    if what is None:
        if null:
            return None
        raise TypeError(f"{name} is None, which a sweep file cannot hold: leave it out")
    raise TypeError(
        f"{name} is {type(what).__name__}; a sweep holds numbers, strings, lists and dicts of these"
    )


def value(what: Any, name: str, null: bool = False) -> str:
    """On one line, as plain().

    TypeError: a sweep file can't hold it; IntegerTooLarge: TOML can't hold it.
    """
    return _written(plain(what, name, null), name)


def _written(what: Any, name: str) -> str:
    if what is None:
        return "{ null = true }"
    if isinstance(what, bool):
        return "true" if what else "false"
    if isinstance(what, int):
        if not -(2**63) <= what < 2**63:
            raise IntegerTooLarge(f"{name} is {what}, and integers of TOML have 64 bits: pass it as a string")
        return str(what)
    if isinstance(what, float):
        return repr(what)
    if isinstance(what, str):
        return text(what)
    if isinstance(what, dict):
        members = (f"{key(k)} = {_written(v, f'{name}.{k}')}" for k, v in what.items())
        return "{ " + ", ".join(members) + " }" if what else "{}"
    return "[" + ", ".join(_written(one, name) for one in what) + "]"
