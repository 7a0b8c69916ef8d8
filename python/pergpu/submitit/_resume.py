"""Calls that another call may replace, when a job gets the signal that its time is over.

If a callable has a method `checkpoint(*args, **kwargs)`, the method returns the call that continues in its
place.  That call is written into the job's folder, the job ends with 75, and its next attempt begins with it.
Any object with `function`, `args` and `kwargs` counts as such a call, so submitit's classes work as well as
those here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from .. import _checkpoint, _payload, _pickling
from ._errors import UncompletedJobError

MOST = 5  # times that a job may ask to be started again; docs/jobs.md
_FILE = "checkpoint"


class DelayedSubmission:
    """A call that has not been made: `DelayedSubmission(function, *args, **kwargs)`."""

    def __init__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs

    def __repr__(self) -> str:
        return f"DelayedSubmission({_pickling.describe(self.function)})"


class Checkpointable:
    """For callables that continue unchanged: the next attempt has the same values in `self`.

        class Training(Checkpointable):
            epoch = 0
            def __call__(self, epochs):
                for self.epoch in range(self.epoch, epochs):
                    ...

    If only a part of `self` should be kept, write your own checkpoint().
    """

    def checkpoint(self, *args: Any, **kwargs: Any) -> DelayedSubmission:
        """The call that continues, made with the arguments of the ending call."""
        return DelayedSubmission(self, *args, **kwargs)  # type: ignore[arg-type]  # subclasses are callable


def checkpoint_of(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """Its method, by either of submitit's names."""
    found = getattr(function, "__submitit_checkpoint__", None) or getattr(function, "checkpoint", None)
    return found if callable(found) else None


class Resumable:
    """Replaces a callable that has checkpoint() in the submit.  `most`: how often it may continue."""

    def __init__(self, func: Callable[..., Any], most: int) -> None:
        self.func = func  # by this name the call is known as that of the function
        self._most = most

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        path = os.path.join(os.environ["PERGPU_OUT"], _FILE)
        call, count = DelayedSubmission(self.func, *args, **kwargs), 0
        try:
            file = _payload.Payload(path)
        except FileNotFoundError:
            pass
        else:
            call, count = file.load(), file.head["count"]

        def save() -> None:
            if count >= self._most:
                raise UncompletedJobError(f"its time is over again, after it has continued {count} times (max_num_timeout)")
            _write_next(path, call, count + 1)

        _checkpoint.on_checkpoint(save)
        result = call.function(*call.args, **call.kwargs)
        _checkpoint._saves.remove(save)  # what is done is not done again
        return result


def _write_next(path: str, call: Any, count: int) -> None:
    checkpoint = checkpoint_of(call.function)
    if checkpoint is None:
        raise UncompletedJobError(f"its time is over, and {call.function!r} has no checkpoint()")
    print("pergpu: the time is over; calling checkpoint()", flush=True)
    following = checkpoint(*call.args, **call.kwargs)
    if following is None:
        raise UncompletedJobError("its time is over, and checkpoint() has returned None")
    kept = DelayedSubmission(following.function, *following.args, **following.kwargs)
    pickled, buffers = _pickling.dump(kept)
    _payload.write(path, {"count": count}, pickled, buffers)
