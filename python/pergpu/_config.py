"""The parameters of a run, for the job that works on it."""

from __future__ import annotations

import difflib
import json
import os
from typing import Any

from ._job import NotAJob


class Config(dict[str, Any]):
    """A dict whose values are also attributes, at every depth.

    >>> cfg = Config({"lr": 0.1, "model": {"depth": 4}})
    >>> cfg.model.depth
    4
    >>> cfg.modle
    Traceback (most recent call last):
    ...
    AttributeError: the run has no parameter 'modle'; did you mean 'model'?

    If a parameter has the name of a dict method, such as `items`, read it with cfg["items"].
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__()
        self.update(*args, **named)

    def update(self, *args: Any, **named: Any) -> None:
        """As dict.update(); nested dicts become Configs, too."""
        for name, value in dict(*args, **named).items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, _nested(value))

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            error = AttributeError(self._missing(name))
            setattr(error, "name", "")  # it says what was meant; from Python 3.12 on it would be said twice
            raise error from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        if name not in self:
            raise AttributeError(self._missing(name))
        del self[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._names()]

    def copy(self) -> Config:
        """A shallow copy, also with attributes."""
        return Config(self)

    def _names(self) -> list[str]:
        return [name for name in self if isinstance(name, str)]

    def _missing(self, name: str) -> str:
        near = difflib.get_close_matches(name, self._names(), 1)
        if near:
            return f"the run has no parameter {name!r}; did you mean {near[0]!r}?"
        has = ", ".join(self._names()) or "none"
        return f"the run has no parameter {name!r}; it has {has}"


def _nested(value: Any) -> Any:
    if isinstance(value, dict) and not isinstance(value, Config):
        return Config(value)
    if isinstance(value, list):
        return [_nested(one) for one in value]
    return value


def config(**defaults: Any) -> Config:
    """Returns the parameters of this job's run (PERGPU_CONFIG); `defaults` fill in missing names.

    A job of a step that runs once for its sweep has no parameters, so it gets the defaults.  So does a
    program that you run by hand.  NotAJob: run by hand, without defaults.
    """
    path = os.environ.get("PERGPU_CONFIG")
    if path is None:
        if not defaults and "PERGPU_JOB" not in os.environ:
            raise NotAJob(
                "pergpu.config() returns the parameters of a run, and this process isn't a job of a run: "
                "start it with `pergpu run`, or give defaults, as in pergpu.config(lr=0.1)"
            )
        return Config(defaults)
    with open(path, encoding="utf-8") as file:
        return Config({**defaults, **json.load(file)})
