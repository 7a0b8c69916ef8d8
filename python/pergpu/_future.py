"""The future of a call, and its result."""

from __future__ import annotations

import builtins
import concurrent.futures
import json
import logging
import os
import re
import threading
import warnings
from concurrent.futures import BrokenExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol

from . import _payload, _private
from ._program_calls import ask, ask_json
from ._results_log import Found
from ._tidy import Tidy


_SLOTS: Any = BaseException


class Backend(Protocol):
    """The interface between a future and the object that runs its call."""

    def cancel(self, future: Future) -> bool:
        """Cancels it; False: it has started."""

    def has_started(self, future: Future) -> bool: ...

    def job_of(self, future: Future) -> int:
        """The id of its job.  RuntimeError: it has none."""

    def break_down(self, why: str, cause: BaseException | None = None) -> None:
        """Makes all calls fail."""


ENDED = ("done", "failed", "timeout", "lost", "cancelled", "skipped")  # states of a job
_LAST_LINES = 10
_OTHER_CALLS = re.compile(r"\A.*^pergpu: iteration \d+ begins, call \d+$\n?", re.DOTALL | re.MULTILINE)  # in the log of a worker


class JobFailed(BrokenProcessPool):
    """A call ended with neither a result nor an exception: it was killed, ran out of time or memory, or
    ended its process.  Or its process could not read the call, or this process could not read the
    result: then the exception of the reader is the cause.

    Only this call is affected; its executor continues.  `state` and `reason` are those of
    `pergpu show`, `job` is its id, `outcome` holds all known data.
    """

    __module__ = "pergpu"  # where people know it from

    def __init__(self, outcome: dict[str, Any], last_lines: str = "", what: str = "") -> None:
        name = f"{outcome['sweep']}/{outcome['run']}" + (f", {what}" if what else "")
        words = f"call {name} (job {outcome['id']}): {outcome['state']}: {outcome['reason'] or 'it left no result'}"
        if last_lines:
            words += f"\nits last lines, from {outcome['log']}:\n{last_lines}"
        super().__init__(words)
        self.outcome = outcome
        self.job: int = outcome["id"]
        self.state: str = outcome["state"]
        self.reason: str = outcome["reason"]
        self._made_of = (outcome, last_lines, what)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._made_of


class RemoteError(RuntimeError):
    """A call raised an exception that can't be recreated here; the message has its text."""

    __module__ = "pergpu"


class RemoteTraceback(Exception):
    """Shows where an exception was raised: the cause of the exception that you get here."""

    __module__ = "pergpu"

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class Future(concurrent.futures.Future):  # type: ignore[type-arg]  # it has no [] before 3.9 at run time
    """A Future of concurrent.futures whose call is a job.

    `result()` reads the result when you ask for it; until then it stays in the job's folder.
    """

    _state: str

    def __init__(self, calls: Backend, number: int, what: str) -> None:
        super().__init__()
        self.number = number
        """The call's number in its sweep, from 0."""
        self._calls = calls
        self._tidy: Tidy | None = getattr(calls, "tidy", None)
        self.what = what
        """The call, as a line to show."""
        self._outcome: dict[str, Any] | None = None
        self._unread: _payload.Payload | Found | None = None
        self._has_returned = False  # and its process goes on
        self._reading = threading.Lock()
        self._changing = threading.Lock()  # who asks and who tells may cancel at once

    @classmethod
    def failed(cls, calls: Backend, what: str, error: BaseException) -> Future:
        """For a call that was never queued."""
        future = cls(calls, -1, what)
        future.set_running_or_notify_cancel()
        future.set_exception(error)
        return future

    def __repr__(self) -> str:
        job = f" job {self._outcome['id']}" if self._outcome else ""
        return f"<pergpu.Future {self.what}{job} {self._state.lower().partition('_')[0]}>"

    # What concurrent.futures has.

    def cancel(self) -> bool:
        """Cancels the call, unless it has started: then returns False (see kill())."""
        return self._calls.cancel(self)

    def running(self) -> bool:
        """Whether it has started, and has not ended."""
        return super().running() or (not self.done() and self._calls.has_started(self))

    def result(self, timeout: float | None = None) -> Any:
        """Returns the result of the call, or raises its exception, with its traceback as the cause.

        JobFailed: the call ended without a result or an exception.  TimeoutError: not within `timeout` seconds.
        CancelledError: it was cancelled before it started.
        """
        try:
            super().exception(timeout)
            self._read()
            return super().result()
        finally:
            del self  # the exception knows this frame, and the future knows the exception

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The call's exception, without raising it; None if the call has returned."""
        try:
            super().exception(timeout)
            self._read()
            return super().exception()
        finally:
            del self

    def _get_snapshot(self) -> Any:  # asked by asyncio from Python 3.14 on
        self._read()
        return super()._get_snapshot()  # type: ignore[misc]

    # What a job has.

    @property
    def job(self) -> int:
        """The job's id, for all commands of pergpu.  Waits until there is one, which takes milliseconds."""
        return self._calls.job_of(self)

    @property
    def outcome(self) -> dict[str, Any] | None:
        """The latest data about its job: `state`, `reason`, `class`, `exit`, `attempt`, `lane`, …
        (docs/json.md); None until the call is submitted to the coordinator."""
        return self._outcome

    @property
    def metrics(self) -> dict[str, Any]:
        """The newest values that it has reported, by name."""
        return dict(json.loads(ask(["export", "--jsonl", str(self.job)])).get("last_metrics") or {})

    def logs(self) -> str:
        """The output of its newest attempt, stdout and stderr."""
        outcome = self._outcome or ask_json(["show", str(self.job)])["jobs"][0]
        return _text_of(outcome["log"])

    def kill(self, now: bool = False) -> None:
        """Ends the call, wherever it runs: SIGTERM, then SIGKILL after its grace period; `now`: SIGKILL at once.
        The result of a running call is then a JobFailed.  A call that has returned keeps its result, even if its
        process is still running."""
        lives_on = self._has_returned and self._outcome is not None and self._outcome["state"] not in ENDED
        if not self.cancel() and (lives_on or not self.done()):
            ask_json(["cancel", *(["--kill"] if now else []), str(self.job)])

    # What _calls.py tells it.

    def see(self, outcome: dict[str, Any]) -> bool:
        """Takes the job's new state; returns whether the call has ended."""
        self._outcome = outcome
        state = outcome["state"]
        if state in ("starting", "running", "stopping"):
            if self._start() and outcome.get("status") == _payload.RETURNED and not self._has_returned:
                self._see_returned(outcome)
            return False
        if state not in ENDED:
            return False
        if self._has_returned:
            self._warn_unless_done(outcome)
            return True
        if state == "cancelled" and self._state != "RUNNING":
            self.give_up()
            return True
        if not self._start():
            return True
        try:
            found = _payload.Payload(os.path.join(outcome["out"], "result"))
        except (OSError, _payload.NotAPayload) as why:
            words = str(why)
            if isinstance(why, FileNotFoundError):
                words = getattr(self._calls, "no_result", "") if state == "done" else ""
            self.fail({**outcome, "reason": outcome["reason"] or words})
            return True
        if found.head["attempt"] != outcome["attempt"]:
            self.fail(outcome)
        elif found.head.get("initializer"):
            initializer_failed(self._calls, found)
        else:
            if found.head["ok"]:
                self._warn_unless_done(outcome)
            self.finish(found, outcome)
        return True

    def _see_returned(self, outcome: dict[str, Any]) -> None:
        """The call has returned, and its process is still running: it has threads or children."""
        try:
            found = _payload.Payload(os.path.join(outcome["out"], "result"))
        except (OSError, _payload.NotAPayload):
            return  # its end will tell
        if found.head["ok"] and found.head["attempt"] == outcome["attempt"]:
            self._has_returned = True
            self.finish(found, outcome)

    def _warn_unless_done(self, outcome: dict[str, Any]) -> None:
        state = outcome["state"]
        if state != "done":
            words = f"{self.what} (job {outcome['id']}) has returned; then its process ended as {state}: {outcome['reason']}"
            warnings.warn(words, RuntimeWarning, stacklevel=3)

    def finish(self, found: _payload.Payload | Found, outcome: dict[str, Any] | None) -> None:
        """It has returned or raised."""
        self._outcome = outcome or self._outcome
        if not self._start():
            return
        if self._tidy is not None and not found.head["ok"]:
            self._tidy.keep()
        if found.head["ok"]:
            self._unread = found
            if self._tidy is not None:
                self._tidy.returned(self.number)
            self._end(None)
        elif found.head.get("loading"):
            self._end(self._unreadable(f"its process cannot read the call: {found.head['words']}", exception_of(found)))
        else:
            self._end(exception_of(found))

    def fail(self, outcome: dict[str, Any]) -> None:
        """Its job ended with neither a result nor an exception."""
        self._outcome = outcome
        if self._tidy is not None:
            self._tidy.keep()
        if not self._start():
            return
        self._end(JobFailed(outcome, last_lines(outcome["log"]), self.what))

    def break_down(self, why: str, cause: BaseException | None) -> None:
        """Fails the call, unless it has ended."""
        if not self.done() and self._start():
            error = BrokenExecutor(why)
            error.__cause__ = cause
            self._end(error)

    def _end(self, error: BaseException | None) -> None:
        """None: only with results that are not read yet."""
        try:
            if error is None:
                self.set_result(None)
            else:
                self.set_exception(error)
        except concurrent.futures.InvalidStateError:
            pass  # it has broken down meanwhile

    def _unreadable(self, why: str, cause: BaseException) -> BaseException:
        known = self._outcome
        error = JobFailed({**known, "reason": why}, what=self.what) if known else BrokenProcessPool(f"{self.what}: {why}")
        error.__cause__ = cause
        return error

    def give_up(self) -> bool:
        """Cancels the call, if it has not started."""
        given_up = super().cancel()
        with self._changing:
            if self._state == "CANCELLED":
                if self._outcome is not None:  # what is told of its job later is of no interest any more
                    self._outcome = {**self._outcome, "state": "cancelled"}
                self.set_running_or_notify_cancel()
        return given_up

    def _start(self) -> bool:
        """False: it has been cancelled."""
        with self._changing:
            if self._state == "PENDING":
                return self.set_running_or_notify_cancel()
            return not self.cancelled()

    def _read(self) -> None:
        with self._reading:
            unread, self._unread = self._unread, None
            try:
                if unread is not None:
                    self._result = unread.load()
                    if self._tidy is not None:
                        self._tidy.read(unread.path)
            except (KeyboardInterrupt, MemoryError):
                self._unread = unread  # another time
                raise
            except BaseException as error:
                self._exception = self._unreadable(f"its result cannot be read here: {type(error).__name__}: {error}", error)
            finally:
                del self


def _text_of(log: str) -> str:
    try:
        return _private.read_log(log)
    except FileNotFoundError:
        return ""


def last_lines(log: str) -> str:
    """The output of a process before its end; of a worker, since its last call began."""
    try:
        text = _text_of(log)
    except OSError:  # it can't be read, or is another user's
        text = ""
    return "\n".join(_OTHER_CALLS.sub("", text).splitlines()[-_LAST_LINES:])


def initializer_failed(calls: Backend, found: _payload.Payload | Found) -> None:
    """Ends all calls, as with the standard library's executors, which log it, too."""
    error = exception_of(found)
    logging.getLogger("concurrent.futures").critical("Exception in initializer:", exc_info=error)
    calls.break_down(f"the initializer has failed: {found.head['words']}", error)


def exception_of(found: _payload.Payload | Found) -> BaseException:
    """The exception of a call."""
    error: BaseException = RemoteError(found.head["words"])
    try:
        loaded = _from_parts(found.load())
        error = loaded if isinstance(loaded, BaseException) else error
    except BaseException:  # reading it may run anything, and this is a thread that others need
        pass
    return caused_by(error, RemoteTraceback(found.head["traceback"]))


def caused_by(error: BaseException, cause: BaseException) -> BaseException:
    """Sets the cause.  A class may refuse assignments, as a frozen dataclass does."""
    _SLOTS.__cause__.__set__(error, cause)
    return error


def _from_parts(what: Any) -> Any:
    """The exception that _call.py took apart."""
    if isinstance(what, str):
        return RemoteError(what)
    if not isinstance(what, tuple):
        return what
    kind, args, attributes = what
    group: Any = getattr(builtins, "BaseExceptionGroup", None)
    error: BaseException
    if group is not None and issubclass(kind, group):
        error = group.__new__(kind, args[0], [_from_parts(member) for member in args[1]])
    else:
        try:
            error = kind.__new__(kind, *args)
        except Exception:  # it takes other ones
            error = BaseException.__new__(kind)
        _SLOTS.args.__set__(error, args)
    vars(error).update(attributes)
    return error
