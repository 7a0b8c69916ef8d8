"""What a call is, in a line for people, and several calls as one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ._pickling import describe

_LONGEST = 60  # letters of the whole, and of a text that is an argument
_SECRET = re.compile(r"pass|secret|token|key|credential", re.IGNORECASE)


def call_text(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Numbers and short texts stand there, of everything else its type; of what is called a secret nothing.

    >>> call_text(print, (1, [2, 3], {"a": 1}), {"sep": "-", "api_key": "x"})
    "print(1, [2, 3], dict, sep='-', api_key=…)"
    """
    words = [_short(value) for value in args]
    words += [f"{name}={'…' if _SECRET.search(name) else _short(value)}" for name, value in kwargs.items()]
    text = f"{describe(function)}({', '.join(words)})"
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def run_chunk(function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> list[Any]:
    """Several calls, one behind the other."""
    return [function(*args) for args in calls]


def _short(value: Any) -> str:
    if value is None or type(value) in (bool, int, float):
        return repr(value)[:_LONGEST]
    if type(value) is str:
        return repr(value if len(value) <= _LONGEST else value[:_LONGEST] + "…")
    if type(value) in (list, tuple) and len(value) <= 4 and all(type(one) in (bool, int, float, str) for one in value):
        return repr(value)[:_LONGEST]
    return type(value).__name__
