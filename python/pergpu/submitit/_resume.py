"""Calls that another call may replace: what a job does when it is told that its time is over.

A callable with a method `checkpoint(*args, **kwargs)` is asked then for the call that is to go on in
its place.  That is written into the job's folder, the job ends with 75, and its next attempt begins
with what lies there.  Whatever has `function`, `args` and `kwargs` is taken for such a call, so the
classes of submitit do as well as those here.
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
    """For callables that go on as they are: what they had in `self` is there in the next attempt.

        class Training(Checkpointable):
            epoch = 0
            def __call__(self, epochs):
                for self.epoch in range(self.epoch, epochs):
                    ...

    Where not all of `self` is worth to be kept, give a checkpoint() of your own.
    """

    def checkpoint(self, *args: Any, **kwargs: Any) -> DelayedSubmission:
        """The call that goes on, made of the arguments of the one that ends."""
        return DelayedSubmission(self, *args, **kwargs)  # type: ignore[arg-type]  # subclasses are callable


def checkpoint_of(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """Its method, by either of the names that submitit knows."""
    found = getattr(function, "__submitit_checkpoint__", None) or getattr(function, "checkpoint", None)
    return found if callable(found) else None


class Resumable:
    """What is submitted instead of a callable that has checkpoint().  `most`: so often it may go on."""

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
                raise UncompletedJobError(f"its time is over again, after it has gone on {count} times (max_num_timeout)")
            _write_next(path, call, count + 1)

        _checkpoint.on_checkpoint(save)
        result = call.function(*call.args, **call.kwargs)
        _checkpoint._saves.remove(save)  # what is done is not done again
        return result


def _write_next(path: str, call: Any, count: int) -> None:
    checkpoint = checkpoint_of(call.function)
    if checkpoint is None:
        raise UncompletedJobError(f"its time is over, and {call.function!r} has no checkpoint()")
    print("pergpu: the time is over; checkpoint() is called", flush=True)
    following = checkpoint(*call.args, **call.kwargs)
    if following is None:
        raise UncompletedJobError("its time is over, and checkpoint() has returned None")
    kept = DelayedSubmission(following.function, *following.args, **following.kwargs)
    pickled, buffers = _pickling.dump(kept)
    _payload.write(path, {"count": count}, pickled, buffers)
