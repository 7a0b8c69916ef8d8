"""An executor of concurrent.futures whose calls are jobs."""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import datetime
import difflib
import itertools
import math
import os
import re
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _holder, _main_module, _payload, _pickling, _pool, _toml, _what
from ._calls import Calls
from ._calls_folder import CallsFolder
from ._environment import Environment
from ._equal import digest_of_call
from ._future import Future
from ._holder import Holder
from ._program_calls import CommandFailed, ask, ask_json
from ._resume import Earlier
from ._settings import OtherSettings, Settings
from ._tidy import Tidy, finish_all, forget_all, keep_of
from ._words import in_python
from ._workers import Workers

_made = itertools.count(1)
_PASSED = ("PERGPU_HOME", "PERGPU_BIN", "PERGPU_LOCKS")  # so that a call may submit, too


class Executor(concurrent.futures.Executor):
    """Runs each call in its own process, on its own GPU, with everything pergpu does for a job.

        with pergpu.Executor(gpus=1, timeout="2h", retries=1) as pool:
            futures = [pool.submit(train, lr=lr) for lr in (0.1, 0.01, 0.001)]
            best = min(future.result() for future in futures)

    `gpus`, `cpus`, `memory`, `gpu_memory`, `timeout`, `retries` and all other keys of a step in a sweep
    file (docs/sweep-file.md) apply to each call.  `max_workers`: at most N calls at once; None: as many
    as fit on the machine.  `lanes`: CPU lanes to run on instead of GPUs.  `on`: "local", this machine, or
    "slurm" (docs/slurm.md).  For Slurm, pass its options with the key `slurm`, such as
    dict(partition="gpu", time="2h"), and put `out` where the nodes can see it.  `name`: the name of the
    calls' sweep for `ps`, `top`, `report` and attach(); calls are added to an existing sweep of that
    name.  Default: the program's name and the time.  `out`: the root of the result folders.
    `initializer(*initargs)` is called in each process before the function.

    `reuse`: the processes stay, and run one call after another, which pays off for many calls of less
    than a second.  The jobs are then these workers; `timeout` still applies to each call, and there are
    no `retries`.

    `resume`: a call that equals one of an earlier run with this `name` returns that call's result, or
    waits for it if it is queued or running.  Equal calls have the same function, code and arguments, the
    same initializer, and the same program arguments.

    Functions need not be importable: closures, lambdas and functions of a script or a notebook are sent by
    value.  The rest of the script's top level doesn't run in the processes.  With `main="run"` they run the
    script first, as the module `__mp_main__`.  Then put the script's work under
    `if __name__ == "__main__":`, as with multiprocessing.  The processes start in the current folder, with
    this process's search path.

    A call held by `pergpu hold`, or because Slurm refused its job, waits until you release it.  You get a
    HeldWarning, once for each reason.  When the `with` block raises, held calls are cancelled.

    Nothing is started before the first call.  TypeError: unknown argument, or the initializer can't be
    called.  ValueError: a value is wrong, or the machine can never provide what a call asks for.
    RuntimeError: a child process reads the script.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        *,
        gpus: Any = 1,
        lanes: int | None = None,
        on: str = "local",
        name: str | None = None,
        out: str | os.PathLike[str] = "runs",
        initializer: Callable[..., Any] | None = None,
        initargs: tuple[Any, ...] = (),
        reuse: bool = False,
        main: str = "value",
        resume: bool = False,
        **keys: Any,
    ) -> None:
        _refuse_while_main_is_read()
        _check_arguments(max_workers, lanes, on, name, out, main)
        _check_switches(on, lanes, name, reuse, resume)
        _check_initializer(initializer, initargs)
        for key in _OF_THE_CALL.intersection(keys):
            raise UnknownArgument(key)
        for key in _OF_OTHERS.keys() & keys.keys():
            if keys.pop(key) is not None or key == "thread_name_prefix":
                raise UnknownArgument(key)
        keys.setdefault("breaker", 0)  # a failure is an exception: the other calls go on
        self.name = name or _name_of_its_own()
        if lanes is None and not gpus and on == "local":
            lanes = max_workers or os.cpu_count()
        keys["gpus"] = gpus
        keys = {name: _plain_value(name, value) for name, value in keys.items()}
        if max_workers is not None and "max_parallel" in keys:
            raise UnknownArgument("max_parallel", "max_workers")
        if max_workers is not None and not reuse:
            keys["max_parallel"] = max_workers
        self._initializer = None if initializer is None else (initializer, tuple(initargs))
        self.folder = os.path.join(os.path.abspath(out), self.name)
        """The sweep's folder: the results of its calls are below it."""
        self._run_main = main == "run"
        calls = CallsFolder(self.folder)
        self._jobs = jobs = _Jobs(calls, lanes, on, keys, self._initializer, self._run_main)
        jobs.check()
        if gpus and lanes is None and on == "local":
            _gpus_of_machine()
        timeout = 0.0
        if reuse:
            if keys.get("retries"):
                raise ValueError("retries need a process for each call; leave out reuse=True")
            if keys.get("signal"):
                raise ValueError("signal comes before the timeout of a process, and warm workers have none; leave out reuse=True")
            timeout = _seconds(keys.pop("timeout", None))  # a worker has none
            if gpus == "auto" and not (max_workers or lanes):
                raise ValueError('with gpus="auto" the number of workers that fit is unknown; set max_workers')
        jobs.keep_settings(reuse)
        jobs.check_machine(reuse)
        self._calls: Calls | Workers
        if reuse:
            count = max_workers or lanes or max(1, fitting(_gpus_of_machine(), gpus))
            self._calls = Workers(count, timeout, jobs.write_head, jobs.start_workers, calls)
        else:
            self._calls = Calls(jobs.head, jobs.start_calls, calls)
        self._calls.holder = jobs.holder
        self._calls.tidy = None if name else Tidy(calls, not reuse)
        if name:
            keep_of(self.folder)
        self._reuse = reuse
        self._has_name = name is not None
        self._earlier = Earlier(self.folder) if resume else None
        self._pid = os.getpid()
        self._close = weakref.finalize(self, _close, self._calls, self._pid)
        self._close.atexit = False  # _wait_for_all() does

    def __repr__(self) -> str:
        return f"<pergpu.Executor {self.name}>"

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Queues a call; returns its Future.

        If an argument can't be sent to another process, the future gets the exception.  RuntimeError:
        the executor was shut down.  BrokenExecutor: the whole executor has failed, because its
        initializer failed or no coordinator can be reached.
        """
        if _over:
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")
        self._calls.check()
        what = _what.call_text(fn, args, kwargs)
        try:
            changes = self._jobs.environment.changes() if self._reuse else {}
            more: tuple[Any, ...] = ((changes,) if changes else ()) if self._reuse else (self._initializer,)
            pickled, buffers = _pickling.dump_call(fn, args, kwargs, more, self._run_main)
        except Exception as error:
            calls = self._calls
            del self  # the error knows this frame
            return Future.failed(calls, what, error)
        if isinstance(self._calls, Workers):
            return self._calls.submit(what, pickled, buffers)
        digest = digest_of_call(fn, args, kwargs, self._jobs.given()) if self._has_name else None
        earlier = self._taken(digest)
        if earlier is not None:
            return self._calls.resume(earlier, what)
        return self._calls.submit(what, pickled, buffers, digest)

    def _taken(self, digest: str | None) -> dict[str, Any] | None:
        """An earlier call that is equal.  Raises as submit() does."""
        try:
            return self._earlier.take(digest) if self._earlier is not None else None
        except CommandFailed as error:  # to run all of them again would be wrong
            self._calls.break_down(str(error), error)
            self._calls.check()
            raise

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[Any]:
        """Returns the results of fn for the items, in their order.

        `chunksize`: items per job; use it if an item takes less time than a process needs to start.
        `buffersize`: at most this many jobs are submitted ahead of the results that you have taken.
        TimeoutError: a result is not there `timeout` seconds after this call.
        """
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if buffersize is not None and (not isinstance(buffersize, int) or isinstance(buffersize, bool)):
            raise TypeError("buffersize must be an integer or None")
        if buffersize is not None and buffersize < 1:
            raise ValueError("buffersize must be None or > 0")
        end = None if timeout is None else time.monotonic() + timeout
        calls: Iterator[tuple[Any, ...]] = zip(*iterables)
        if chunksize == 1:
            return self._map(fn, calls, buffersize, end)
        chunks = iter(lambda: list(itertools.islice(calls, chunksize)), [])
        results = self._map(_what.run_chunk, ((fn, chunk) for chunk in chunks), buffersize, end)
        return itertools.chain.from_iterable(results)

    def _map(
        self, fn: Callable[..., Any], calls: Iterator[tuple[Any, ...]], ahead: int | None, end: float | None
    ) -> Iterator[Any]:
        futures = deque(self.submit(fn, *call) for call in itertools.islice(calls, ahead))
        return _in_order(self._calls, None if ahead is None else self, futures, fn, calls, end)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accepts no more calls.  `cancel_futures`: cancels calls that have not started.  `wait`: waits until
        the other calls have ended."""
        if os.getpid() != self._pid:
            return  # the calls are those of the process that has forked this one
        self._calls.close()
        if cancel_futures:
            self._calls.cancel_queued()
        if wait:
            self._calls.join()

    def __exit__(self, kind: type[BaseException] | None, *more: Any) -> None:
        """shutdown(), but after a KeyboardInterrupt it doesn't wait, and the calls continue.  After another
        exception, held calls are cancelled, since nothing would release them."""
        if kind is None or not issubclass(kind, KeyboardInterrupt) or os.getpid() != self._pid:
            if kind is not None and os.getpid() == self._pid:
                self._calls.drop_held()
            return self.shutdown()
        if self._calls.tidy is not None:
            self._calls.tidy.keep()
        count = self._calls.leave()
        if count > 0:
            words = f"pergpu.attach({self.name!r}) returns their futures, `pergpu cancel {self.name}` ends them"
            print(f"pergpu: {count} calls are still running or queued; {words}", file=sys.stderr)

    def terminate_workers(self) -> None:
        """Accepts no more calls and ends the existing ones: SIGTERM, then SIGKILL after their grace period."""
        self._end_all()

    def kill_workers(self) -> None:
        """As terminate_workers(), but with SIGKILL immediately."""
        self._end_all("--kill")

    def _end_all(self, *words: str) -> None:
        if os.getpid() == self._pid:  # not those of the process that has forked this one
            self._calls.close()
            self._calls.end_all(*words)

    @property
    def _broken(self) -> str | None:  # where the executors of the standard library have it
        return self._calls.why_broken


def _check_arguments(max_workers: Any, lanes: Any, on: Any, name: Any, out: Any, main: Any) -> None:
    if max_workers is not None and (isinstance(max_workers, bool) or not hasattr(max_workers, "__index__")):
        raise TypeError(f"max_workers is {max_workers!r}; expected a whole number, 1 or more")
    if max_workers is not None and max_workers <= 0:
        raise ValueError("max_workers must be greater than 0")
    if not isinstance(out, (str, os.PathLike)):
        raise TypeError(f"out is {out!r}; expected the path of a folder")
    if lanes is not None and (type(lanes) is not int or lanes < 1):
        raise ValueError(f"lanes is {lanes!r}; expected a whole number of CPU lanes, 1 or more")
    if name is not None and (not isinstance(name, str) or not name or "/" in name):
        raise ValueError(f"name is {name!r}; expected the name of a sweep, without a slash")
    if main not in ("value", "run"):
        raise ValueError(f'main is {main!r}; expected "value" or "run"')
    if on not in ("local", "slurm"):
        raise ValueError(f'on is {on!r}; expected "local" or "slurm"')


def _check_switches(on: str, lanes: Any, name: Any, reuse: Any, resume: Any) -> None:
    for key, is_so in (("reuse", reuse), ("resume", resume)):
        if not isinstance(is_so, int) and type(is_so).__module__ != "numpy":
            raise TypeError(f"{key} is {is_so!r}; expected True or False")
    if resume and (name is None or reuse):
        need = "a process for each call; leave out reuse=True" if reuse else "the name of the sweep of the earlier run: name=…"
        raise ValueError(f"resume=True needs {need}")
    if on == "slurm" and (reuse or lanes is not None):
        what = "reuse=True: warm workers live" if reuse else "lanes: they are"
        raise ValueError(f'on="slurm" does not work with {what} on this machine')


def _check_initializer(initializer: Any, initargs: Any) -> None:
    if not hasattr(initargs, "__iter__"):
        raise TypeError(f"initargs is {initargs!r}; expected a tuple of the initializer's arguments, such as ({initargs!r},)")
    if initializer is not None and not callable(initializer):
        raise TypeError("initializer must be a callable")


class _Jobs:
    """Turns calls into jobs.  It has no reference to the executor, so that the executor can be collected."""

    def __init__(
        self, calls: CallsFolder, lanes: int | None, on: str, keys: Mapping[str, Any], initializer: Any, run_main: bool
    ) -> None:
        self.sweep = calls.sweep
        """Its folder."""
        self.calls = calls
        self._folder = os.getcwd()
        self._is_here = on == "local"
        self.holder = Holder(calls) if self._is_here else None
        self.environment = Environment(keys, self._is_here)
        self._placed = {"on": on, "lanes": lanes}
        self._options = ["--on", on] if lanes is None else ["--lanes", str(lanes)]
        self._keys = keys
        self._initializer = initializer
        self._run_main = run_main
        self._main = _main_module.of_program(run_main)

    def check(self) -> None:
        """Reports errors in the keys before anything is queued, as a coordinator would."""
        try:
            ask(["submit", "-", "--emit"], self._sweep_text("call", [sys.executable], [{"number": 0}]))
        except CommandFailed as error:
            words = str(_reworded(error))
            unknown = re.match(r"unknown key `([^`]*)`(?: in `([^`]*)`)?(?:; did you mean `([^`]*)`)?", words)
            if unknown is None:
                raise BadArgument(words) from None
            name, owner, close = unknown.groups()
            if owner is None:
                raise UnknownArgument(name, close) from None
            raise BadArgument(f"{owner} has no key {name!r}" + (f"; did you mean {close!r}?" if close else "")) from None

    def keep_settings(self, reuse: bool) -> None:
        """From here on no keys change.  BadArgument: unfinished calls of this sweep have other keys."""
        keys = {"max_workers" if name == "max_parallel" else name: value for name, value in self._keys.items()}
        itself = {"reuse": reuse, "python": sys.executable, "folder": self._folder}
        self._settings = Settings(self.sweep, {**keys, **self._placed, **itself}, self.calls)
        try:
            self._settings.check()
        except OtherSettings as error:
            raise BadArgument(error) from None

    def head(self) -> dict[str, Any]:
        """The data about this process that each call's process needs."""
        path = [entry or self._folder for entry in sys.path]
        passed = _PASSED if self._is_here else ("PERGPU_BIN",)  # homes and locks are a machine's own
        changes = self.environment.of_call()
        env = {name: value for name, value in changes.items() if value is not None}
        env.update({name: os.environ[name] for name in passed if name in os.environ})
        if self.holder is not None:
            env[_holder.VARIABLE] = self.holder.path
        unset = [name for name, value in changes.items() if value is None]
        return {"path": path, "argv": sys.argv[:], "env": env, "unset": unset, "main": self._main}

    def given(self) -> tuple[Any, ...]:
        """Data that travels with each call, and may change its result."""
        return self._initializer, _text_of(self._main["file"]) if self._run_main else None, _arguments_of_program()

    def check_machine(self, reuse: bool) -> None:
        """BadArgument: this machine can never provide what a call asks for, or the folder can't be made."""
        root = os.path.dirname(self.sweep)
        can_write = os.path.isdir(root) and os.access(root, os.W_OK | os.X_OK)
        if not self._is_here or can_write and not _asks_much(self._keys):
            return
        try:
            if reuse:
                self._submit("worker", self._command("_worker", "queue"), [{"queue": "", "number": 0}], "--dry-run")
            else:
                self._submit("call", self._command("_call", "number"), [{"number": 0, "what": ""}], "--dry-run")
        except CommandFailed as error:
            if error.code == 2:  # else there may be a coordinator when the first call comes
                raise BadArgument(error) from None

    def start_calls(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return self._hand_over("call", self._command("_call", "number"), rows)

    def write_head(self, path: str, at: int, timeout: float) -> None:
        pickled, buffers = _pickling.dump(self._initializer, self._run_main)
        _payload.write(path, {**self.head(), "timeout": timeout}, pickled, buffers, at=at)

    def start_workers(self, queue: str, first: int, count: int) -> dict[str, Any]:
        rows = [{"queue": os.path.basename(queue), "number": i} for i in range(first, first + count)]
        return self._hand_over("worker", self._command("_worker", "queue"), rows)

    def _command(self, what: str, file: str) -> list[str]:
        return [_plain(sys.executable), _plain(_beside("_start.py")), what, _plain(self.sweep) + f"/_calls/{{{file}}}"]

    def _hand_over(self, step: str, command: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        with self._settings.agreed() as tell:
            reply = self._submit(step, command, rows)
            tell(reply["sweep_id"])
        return reply

    def _submit(self, step: str, command: Sequence[str], rows: Sequence[Mapping[str, Any]], *options: str) -> dict[str, Any]:
        text = self._sweep_text(step, command, rows)
        words = ["submit", "-", "--add", *self._options, *options]
        try:
            reply: dict[str, Any] = ask_json(words, text, folder=Path(self._folder), env=self.environment.first)
        except CommandFailed as error:
            raise _reworded(error) from None
        return reply

    def _sweep_text(self, step: str, command: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
        root, name = os.path.split(self.sweep)
        keys = {**self._keys, "command": command}
        lines = [f"name = {_toml.text(name)}", f"out = {_toml.text(root)}", "runs = ["]
        lines += [f"  {_toml.value(row, 'row')}," for row in rows]
        lines += ["]", f"[steps.{step}]"]
        lines += [f"{_toml.key(k)} = {_toml.value(v, k)}" for k, v in keys.items() if v is not None]
        return "\n".join(lines) + "\n"


def _in_order(
    backend: Calls | Workers,
    pool: Executor | None,
    futures: deque[Future],
    fn: Callable[..., Any],
    calls: Iterator[Any],
    end: float | None,
) -> Iterator[Any]:
    try:
        while futures:
            left = None if end is None else end - time.monotonic()
            result = [futures[0].result(left)]
            futures.popleft()
            if pool is not None:
                futures.extend(pool.submit(fn, *call) for call in itertools.islice(calls, 1))
            yield result.pop()  # no reference to it stays here
    finally:
        _take_back(backend, futures)


def _take_back(backend: Calls | Workers, futures: Iterable[Future]) -> None:
    """Cancels all of them together, since separate commands would take longer."""
    left = [future for future in futures if not future.done()]
    if isinstance(backend, Calls) and left:
        with contextlib.suppress(CommandFailed, OSError):  # they run, then
            backend.cancel_queued(left)
    else:
        for future in left:
            future.cancel()


class BadArgument(CommandFailed, ValueError):
    """A value of Executor() is wrong."""

    __module__ = "pergpu"

    def __init__(self, words: object) -> None:
        super().__init__("submit", 2, str(words))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self),)


class UnknownArgument(CommandFailed, TypeError):
    """Executor() has no argument of this name."""

    __module__ = "pergpu"

    def __init__(self, name: str, close: str | None = None) -> None:
        own = difflib.get_close_matches(name, _OWN, 1, 0.8)
        close = _USUAL.get(name) or (own[0] if own and name != own[0] else close)
        if close in _OF_THE_CALL:
            close = None
        if name in _OF_OTHERS:
            words = f"Executor() doesn't support {name!r}: {_OF_OTHERS[name]}"
        else:
            words = f"Executor() got an unexpected keyword argument {name!r}" + (f"; did you mean {close!r}?" if close else "")
        super().__init__("submit", 2, words)
        self._named = (name, close)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._named


# Keys of a step that say what a job runs, and when.
_OF_THE_CALL = frozenset(("command", "shell", "cwd", "needs", "once", "outputs"))
_OF_OTHERS = {  # of the standard library's executors; None, the default of the first two, is accepted
    "max_tasks_per_child": "each call runs in a new process unless reuse=True; remove the argument",
    "mp_context": "pergpu starts the processes of calls, not multiprocessing; remove the argument",
    "thread_name_prefix": "calls run in processes, not in threads; remove the argument (name=... names the executor)",
}
_OWN = ("max_workers", "lanes", "on", "name", "out", "initializer", "initargs", "reuse", "main", "resume")
_USUAL = {  # words of others
    "mem": "memory",
    "mem_gb": "memory",
    "vram": "gpu_memory",
    "gpu": "gpus",
    "num_gpus": "gpus",
    "n_gpus": "gpus",
    "num_cpus": "cpus",
    "n_cpus": "cpus",
    "cpus_per_task": "cpus",
    "time": "timeout",
    "time_limit": "timeout",
    "timeout_min": "timeout",
    "max_retries": "retries",
    "workers": "max_workers",
    "n_jobs": "max_workers",
    "processes": "max_workers",
}


def _refuse_while_main_is_read() -> None:
    """RuntimeError: this is a child of multiprocessing, or of an executor, that reads the script."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and getattr(process.current_process(), "_inheriting", False):
        raise RuntimeError(
            "a child process is reading the main module, and would submit all its calls again: put the program's "
            'own work under `if __name__ == "__main__":`'
        )


def _name_of_its_own() -> str:
    program = re.sub(r"[^A-Za-z0-9_.+-]", "_", Path(sys.argv[0] or "calls").stem).lstrip("-._") or "calls"
    count = next(_made)
    again = f"-{count}" if count > 1 else ""
    return f"{program[:40]}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}{again}"


def _reworded(error: CommandFailed) -> CommandFailed:
    return CommandFailed("submit", error.code, in_python(str(error)))


def _plain_value(name: str, value: Any) -> Any:
    """TypeError: no sweep file can hold the value.  ValueError: its unit is unclear (seconds or minutes?)."""
    if isinstance(value, datetime.timedelta) and value >= datetime.timedelta(0):
        return f"{round(value.total_seconds() * 1000)}ms"
    plain_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if name in ("timeout", "idle_timeout", "grace", "ready", "stall", "expect") and (plain_number or isinstance(value, datetime.timedelta)):
        such = f"{value:g}s" if plain_number and 0 < value < math.inf else "90s"
        raise BadArgument(f'{name} is {value!r}; expected a duration with its unit, such as "{such}" or "12h", or a timedelta')
    if plain_number and name == "gpu":
        raise BadArgument(f'gpu is {value!r}; expected the name or a pattern of a GPU model, such as "*H100*"; did you mean gpus={value!r}?')
    if plain_number and name in ("memory", "gpu_memory"):
        raise BadArgument(f'{name} is {value!r}; expected a size with its unit, such as "64GiB" or "500MB"')
    try:
        return value if value is None else _toml.plain(value, name)
    except TypeError as error:
        raise TypeError(str(error).replace("a sweep holds numbers, strings, lists and dicts of these", "expected numbers, str, lists and dicts of these")) from None


def _asks_much(keys: Mapping[str, Any]) -> bool:
    """Whether some machines can never provide it: asking costs some hundredths of a second."""
    gpus = keys.get("gpus")
    many = isinstance(gpus, (int, float)) and gpus > 1
    return many or any(keys.get(name) is not None for name in ("cpus", "memory", "gpu_memory", "gpu", "sharing"))


def _text_of(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except OSError:
        return None


def _arguments_of_program() -> list[str]:
    """Without the path of the script, which has several spellings.  A notebook's paths change with each start."""
    is_notebook = "ipykernel" in sys.modules and getattr(sys.modules["__main__"], "__file__", None) is None
    return [] if is_notebook else sys.argv[1:]


def _beside(name: str) -> str:
    return str(Path(__file__).with_name(name))


def _plain(path: str) -> str:
    """As a string of a sweep file, without placeholders."""
    return path.replace("{", "{{").replace("}", "}}")


def _seconds(timeout: str | None) -> float:
    """The seconds of a duration in any form that sweep files have; 0: none.  BadArgument: it isn't a duration."""
    if timeout is None:
        return 0
    sweep = f'name = "one"\n[steps.call]\ncommand = ["true"]\ntimeout = {_toml.value(timeout, "timeout")}\n'
    written = re.search(r'^timeout = "([^"]*)"$', ask(["submit", "-", "--emit"], sweep), re.MULTILINE)
    units = {"d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 0.001}
    parts = re.fullmatch("".join(rf"(?:(\d+){unit})?" for unit in units), written[1] if written else "")
    seconds = sum(int(n or 0) * length for n, length in zip(parts.groups(), units.values())) if parts else 0
    if not seconds:
        raise BadArgument(f"timeout is {timeout!r}, which isn't a duration")
    return seconds


def fitting(machine: int, gpus: float) -> int:
    """How many calls fit on the machine's GPUs at once, with N GPUs each, or a share of one."""
    return machine * int(1 / gpus + 1e-9) if 0 < gpus < 1 else machine // max(1, int(gpus))


def _gpus_of_machine() -> int:
    """ValueError: there is none."""
    count = len(ask_json(["gpus"])["gpus"])
    if count == 0:
        raise ValueError("this machine has no GPU; use gpus=0 or lanes=N to run the calls on CPU lanes")
    return count


def _close(calls: Calls | Workers, pid: int) -> None:
    """Not in a forked process: it has no threads, and a lock may be held there."""
    if os.getpid() == pid:
        calls.close()


_over = False


def _wait_for_all() -> None:
    """As the standard library's executors do: the interpreter does not end before the calls."""
    global _over
    _over = True
    for calls in [*_pool.running]:
        calls.close()
        calls.join()
    finish_all()


atexit.register(_wait_for_all)
os.register_at_fork(after_in_child=_pool.running.clear)
os.register_at_fork(after_in_child=forget_all)
