"""What a call is, in a line for people, and several calls as one."""

from __future__ import annotations

import functools
import inspect
import re
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ._pickling import describe

_LONGEST = 60  # letters of the whole, and of a text that is an argument
_SECRET = re.compile(r"passw|passphrase|secret|credential|cookie|bearer|(^|_)(pass|pwd|auth|pat)(_|$)|authori[sz]ation|(token|key)(_|$)")
_SECRETS = re.compile(r"(token|key)s(_|$)")  # or how many tokens
_KNOWN = re.compile(r"(hf_|sk-|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|AKIA|eyJ)[\w.-]{8}|://[^/\s:]*:[^/\s@]+@")


class _Names(NamedTuple):
    by_place: tuple[str, ...]
    """With a slash in front: a name that nobody may use."""
    rest: str
    """Of what else comes by place."""


_known: weakref.WeakKeyDictionary[Any, _Names] = weakref.WeakKeyDictionary()


def call_text(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """As it could be called, with the names of its parameters.  Numbers and short texts stand there, of everything else
    its type; of what is called a secret, or looks like one, nothing.

    >>> def train(lr, layers, *, api_key): ...
    >>> call_text(train, (0.1, [2, 3]), {"api_key": "x"})
    'train(lr=0.1, layers=[2, 3], api_key=…)'
    """
    while isinstance(function, functools.partial):
        args, kwargs, function = function.args + args, {**function.keywords, **kwargs}, function.func
    words = [_shown(name, value, hint) for name, hint, value in _named(function, args)]
    words += [_shown(name, value, name) for name, value in kwargs.items()]
    text = f"{describe(function)}({', '.join(words)})"
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def run_chunk(function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> list[Any]:
    """Several calls, one behind the other."""
    return [function(*args) for args in calls]


def _named(function: Callable[..., Any], args: tuple[Any, ...]) -> Iterator[tuple[str, str, Any]]:
    """Of each argument that is given by place: the name to show, what it is called, and its value."""
    if not args:
        return
    try:
        names = _known.get(function)
    except TypeError:  # it has no hash
        names = None
    if names is None:
        names = _names_of(function)
        try:
            _known[function] = names
        except TypeError:  # it is made anew each time, as a bound method, or nothing may refer to it
            pass
    for i, value in enumerate(args):
        name = names.by_place[i] if i < len(names.by_place) else names.rest
        shown = name if i < len(names.by_place) and not name.startswith("/") else ""
        yield shown, name, value


def _names_of(function: Callable[..., Any]) -> _Names:
    try:
        parameters = inspect.signature(getattr(function, "shown_as", function)).parameters.values()
    except (TypeError, ValueError):  # of C, mostly
        return _Names((), "")
    by_place, rest = [], ""
    for one in parameters:
        if one.kind is one.POSITIONAL_OR_KEYWORD:
            by_place.append(one.name)
        elif one.kind is one.POSITIONAL_ONLY:
            by_place.append("/" + one.name)
        elif one.kind is one.VAR_POSITIONAL:
            rest = one.name
    return _Names(tuple(by_place), rest)


def _shown(name: str, value: Any, hint: str) -> str:
    words = "…" if _is_secret(hint, value) else _short(value)
    return f"{name}={words}" if name else words


def _is_secret(name: str, value: Any) -> bool:
    if type(value) is str and _KNOWN.search(value):
        return True
    of_one, of_many = _sounds_secret(name) if name else (False, False)
    return of_one or (of_many and not isinstance(value, (int, float)))


@functools.lru_cache(1000)
def _sounds_secret(name: str) -> tuple[bool, bool]:
    """Like one, or like several."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.lstrip("/")).lower()
    return _SECRET.search(snake) is not None, _SECRETS.search(snake) is not None


def _short(value: Any) -> str:
    if value is None or type(value) in (bool, int, float):
        return repr(value)[:_LONGEST]
    if type(value) is str:
        return repr(value if len(value) <= _LONGEST else value[:_LONGEST] + "…")
    if type(value) in (list, tuple) and len(value) <= 4 and all(type(one) in (bool, int, float, str) for one in value):
        return type(value).__name__ if any(type(one) is str and _KNOWN.search(one) for one in value) else repr(value)[:_LONGEST]
    return type(value).__name__
