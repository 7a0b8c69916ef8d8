"""Describes a call as one line of text, and several calls as one."""

from __future__ import annotations

import functools
import inspect
import re
import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from ._pickling import describe

_LONGEST = 60  # letters of the whole, and of a text that is an argument
_SECRET = re.compile(
    r"passw|passphrase|passcode|secret|credential|cookie|bearer|private_?(key|pem)|conn(ection)?_?str|authori[sz]ation"
    r"|(^|_)(pass|pwd|pw|auth|pat|pem|creds?|dsn|jwt|otp|sas)(_|\d|$)|(token|key)(_|$)"
)
_SECRETS = re.compile(r"(token|key)s(_|$)")  # or how many tokens
_CALLED = (
    r"(?:passwo?r?d|pwd|pass|pw|passphrase|passcode|secret|credentials?|creds?|cookie|token|key|sig|signature|auth|authorization|bearer|pem)"
)
_KNOWN = re.compile(
    r"(hf_|sk-|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|AKIA|eyJ|AIza|[sr]k_(live|test)_|npm_|pypi-|dapi)[\w.-]{8}"
    r"|://[^/\s@]+@|hooks\.slack\.com/services/|-----BEGIN [A-Z ]*PRIVATE KEY"
    rf"|(?i:\b(bearer|basic)\s+\S|{_CALLED}[\"']?\s*[=:]\s*\S|(?<!\S)--?[\w-]{{0,40}}?{_CALLED}\s+\S)"
)
_IS_NAME = re.compile(rf"(?i)-{{0,2}}[\w.-]{{0,40}}?{_CALLED}:?")  # then the next one is the secret
_SEARCHED = 2000  # letters: of a longer text only the first ones could be shown


class _Place(NamedTuple):
    """How one parameter is shown."""

    shown: str
    """The text before the value."""
    is_secret: bool
    are_secrets: bool
    """The parameter holds secrets, unless it's a number of them."""
    hides_text: bool = False
    """The parameter's name is unknown, so strings aren't shown."""


class _Names(NamedTuple):
    by_place: tuple[_Place, ...]
    rest: _Place
    """For other positional arguments."""


_known: weakref.WeakKeyDictionary[Any, _Names] = weakref.WeakKeyDictionary()
_known_of_methods: weakref.WeakKeyDictionary[Any, _Names] = weakref.WeakKeyDictionary()  # by their functions


def call_text(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The call's text, with parameter names.  Shows numbers and short strings; for other values, the type.  Omits
    values that are called a secret or look like one.

    >>> def train(lr, layers, *, api_key): ...
    >>> call_text(train, (0.1, [2, 3]), {"api_key": "x"})
    'train(lr=0.1, layers=[2, 3], api_key=…)'
    """
    while isinstance(function, functools.partial):
        args, kwargs, function = function.args + args, {**function.keywords, **kwargs}, function.func
    words = []
    if args:
        by_place, rest = _names(function)
        words = [_shown(place, value) for place, value in zip(by_place, args)]
        words += [_shown(rest, value) for value in args[len(by_place) :]]
    if kwargs:
        words += [_shown(_place(name), value) for name, value in kwargs.items()]
    text = f"{describe(function)}({', '.join(words)})"
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def run_chunk(function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> list[Any]:
    """Several calls, one after the other."""
    return [function(*args) for args in calls]


def _names(function: Callable[..., Any]) -> _Names:
    known, key = _known, function
    if type(function) is types.MethodType:  # made anew each time
        known, key = _known_of_methods, function.__func__
    try:
        names = known.get(key)
    except TypeError:  # it has no hash
        names = None
    if names is None:
        names = _names_of(function)
        try:
            known[key] = names
        except TypeError:  # nothing may refer to it
            pass
    return names


def _names_of(function: Callable[..., Any]) -> _Names:
    rest = _Place("", False, False)
    try:
        parameters = list(inspect.signature(getattr(function, "shown_as", function)).parameters.values())
    except (TypeError, ValueError):  # of C, mostly
        return _Names((), rest._replace(hides_text=True))
    takes_all = {one.kind for one in parameters} >= {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    is_wrapper = takes_all and (len(parameters) == 2 or "<locals>" in getattr(function, "__qualname__", ""))
    by_place = []
    for one in parameters:
        if one.kind is one.POSITIONAL_OR_KEYWORD:
            by_place.append(_place(one.name))
        elif one.kind is one.POSITIONAL_ONLY:
            by_place.append(_place(one.name)._replace(shown=""))  # nobody may write the name
        elif one.kind is one.VAR_POSITIONAL:
            rest = _place(one.name)._replace(shown="", hides_text=is_wrapper)
    return _Names(tuple(by_place), rest)


@functools.lru_cache(1000)
def _place(name: str) -> _Place:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return _Place(f"{name}=", _SECRET.search(snake) is not None, _SECRETS.search(snake) is not None)


def _shown(place: _Place, value: Any) -> str:
    if place.is_secret or (place.are_secrets and not isinstance(value, (int, float))):
        return place.shown + "…"
    if type(value) is str and (place.hides_text or _KNOWN.search(value[:_SEARCHED])):
        return place.shown + "…"
    return place.shown + _short(value, place.hides_text)


def _short(value: Any, hides_text: bool) -> str:
    if value is None or type(value) in (bool, int, float):
        return repr(value)[:_LONGEST]
    if type(value) is str:
        return repr(value if len(value) <= _LONGEST else value[:_LONGEST] + "…")
    if type(value) in (list, tuple) and len(value) <= 4 and all(type(one) in (bool, int, float, str) for one in value):
        texts = [one[:_SEARCHED] for one in value if type(one) is str]
        if not texts or not (hides_text or any(_KNOWN.search(one) or _IS_NAME.fullmatch(one) for one in texts)):
            return repr(value)[:_LONGEST]
    return type(value).__name__
