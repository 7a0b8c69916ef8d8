"""A warm worker: `python .../pergpu/_start.py _worker QUEUE`, a job that runs calls one after the other.

It takes calls from the queue (_queue.py), writes their results to `results-ATTEMPT` in its folder and sends
them to the executor.  A power failure loses at most one second of results.  An idle worker waits for a message
of the executor: b"w", look again, or b"q", end.  It ends after a minute without a message; the executor
starts another worker when there are calls again.  If the executor is gone, the worker runs the remaining calls
and ends.

A worker's job may restart without using up a retry, if the call asked for it with exit code 75 or its GPU
broke.  Then the new attempt begins with the earlier attempt's call.  A call that ended its worker is not run
again.

A call that exceeds its timeout ends the process by SIGALRM, even inside a C function.
"""

import fcntl
import os
import select
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

if TYPE_CHECKING or __package__:
    from . import _call, _main_module, _payload, _private, _queue, _results_log
else:
    import _call
    import _main_module
    import _payload
    import _private
    import _queue
    import _results_log

_signal: "Any" = __import__("_signal")  # without the enums of `signal`, which cost microseconds
SYNC_PERIOD = 1.0  # seconds
OF_THE_CALL = ("exit", "signal", "user-error", "oom-host", "timeout", "stall", "cancelled")
IDLE_LIMIT = 60.0  # seconds without a call: then the lane is for others


class Worker:
    def __init__(self, folder: str) -> None:
        self._queue = _queue.Queue(folder)
        self._folder = folder
        self._timeout = 0.0  # seconds of a call; 0: none
        self._job = int(os.environ["PERGPU_JOB"])
        self._attempt = int(os.environ["PERGPU_ATTEMPT"])
        self._pid = os.getpid()
        self._streams = _Streams()
        self._out = os.environ["PERGPU_OUT"]
        self._results = self._open_results()
        self._synced = time.monotonic()
        self._executor = self._connected()
        self._watch_descriptors()
        self._environ = os.environ
        self._environment = _variables(os.environ).copy()
        self._mask = _signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self._begun = 0  # calls
        self._main = sys.modules["__main__"]

    def run(self) -> None:
        """Until there is nothing to do any more."""
        head = _payload.Payload(self._folder + "/head", self._queue.at)
        self._timeout = head.head["timeout"]
        sys.path[:] = head.head["path"]
        sys.argv[:] = head.head["argv"]
        _call.set_environment(head.head)
        if not self._begin(head):
            return
        for unfinished in self._unfinished():
            self._call(unfinished)
        while True:
            number = self._queue.take(self._job)
            if number is not None:
                self._call(number)
            elif not self._more():
                self._sync()
                return

    def _begin(self, head: "_payload.Payload") -> bool:
        try:
            _main_module.take_place(head.head["main"])
            self._main = sys.modules["__main__"]
            initializer = head.load()
            if initializer is not None:
                initializer[0](*initializer[1])
                _call.end_if_promised("the initializer has returned")
            self._streams.take()
            self._environment = _variables(os.environ).copy()
            self._repair()
            return True
        except SystemExit:
            raise
        except BaseException as error:
            told, pickled, _ = _call.failure(error)
            _call.end_if_promised("the initializer has raised an exception")
            self._tell(_results_log.frame(_queue.CANCELLED, {**told, "initializer": True}, pickled))
            raise SystemExit(1) from None

    def _unfinished(self) -> "list[int]":
        """Calls that the earlier attempt took and that have no result, except a call that ended it."""
        if self._attempt == 1 or self._class_of_earlier() in OF_THE_CALL:
            return []
        done: set[int] = set()
        for attempt in range(1, self._attempt):
            try:
                with _payload.open_ours(f"{self._out}/results-{attempt}") as file:
                    done.update(number for number, _ in _results_log.Reader().feed(file.read()))
            except FileNotFoundError:
                pass
        return [number for number in self._queue.taken_by(self._job) if number not in done]

    def _class_of_earlier(self) -> object:
        """How the earlier attempt ended (docs/failures.md); None: its record is not written yet."""
        import json

        try:
            with open(_private.open_record(f"{self._out}/attempt.{self._attempt - 1}.json"), "rb") as file:
                return json.load(file).get("class")
        except (OSError, ValueError):
            return None

    def _call(self, number: int) -> None:
        self._reset_signals()
        self._begun += 1
        self._streams.separate(f"pergpu: iteration {self._begun} begins, call {number}")
        if self._timeout:
            signal.setitimer(signal.ITIMER_REAL, self._timeout)
        what: dict[str, object] = {"loading": True}
        try:
            function, args, kwargs, *more = self._queue.load(number)
            what = {}
            if more:
                _set(more[0])
            value = function(*args, **kwargs)
            _call.end_if_forked(self._pid)
            _call.end_if_promised("the call has returned")
            head: dict[str, object] = {"ok": True}
            pickled, buffers = _call.dump(value)
            del value, function, args, kwargs
        except SystemExit:
            _signal.setitimer(signal.ITIMER_REAL, 0)
            raise  # it ends this process
        except BaseException as error:
            _call.end_if_forked(self._pid, error)
            head, pickled, buffers = _call.failure(error)
            _call.end_if_promised("the call has raised an exception")
            head.update(what)
        _call.flush()  # within the time of the call: it may have made its stdout a pipe that is full
        if self._timeout:
            _signal.setitimer(signal.ITIMER_REAL, 0)
        self._repair()
        if buffers:
            path = f"{self._out}/result-{number}"
            try:
                _payload.write(path, {}, pickled, buffers)
            except FileNotFoundError:  # a function has removed the folder
                self._keep_results()
                _payload.write(path, {}, pickled, buffers)
            head["file"] = path
            pickled = b""
        self._tell(_results_log.frame(number, head, pickled))

    def _reset_signals(self) -> None:
        """Makes sure that the call can be ended, whatever an earlier call has done."""
        if _signal.pthread_sigmask(_signal.SIG_BLOCK, ()) != self._mask:
            _signal.signal(_signal.SIGALRM, _signal.SIG_IGN)  # drops one that is pending
            _signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        if self._timeout:
            _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)

    def _repair(self) -> None:
        """The state that the worker and the next call need, whatever this call has done to it."""
        if sys.modules.get("__main__") is not self._main:
            sys.modules["__main__"] = self._main
        if os.environ is not self._environ:
            os.environ = self._environ
        if _variables(self._environ) != self._environment:
            _restore(self._environment)
        if any(event & select.POLLNVAL for _, event in self._closed.poll(0)):
            self._reopen()
        self._streams.restore()

    def _watch_descriptors(self) -> None:
        """One system call checks whether all are open."""
        self._descriptors = [self._results, *self._queue.descriptors(), *self._streams.descriptors()]
        if self._executor is not None:
            self._descriptors.append(self._executor.fileno())
        self._closed = select.poll()
        for fd in self._descriptors:
            self._closed.register(fd, 0)

    def _reopen(self) -> None:
        """A function has closed files that aren't its own."""
        lost = {fd for fd in self._descriptors if not _is_open(fd)}  # before their numbers are given again
        self._streams.reopen(lost)
        if not lost.isdisjoint(self._queue.descriptors()):
            self._queue.reopen(lost)
        if self._results in lost:
            self._results = self._open_results()
        if self._executor is not None and self._executor.fileno() in lost:
            self._executor.detach()
            self._executor = self._connected()
        self._watch_descriptors()

    def _open_results(self) -> int:
        """Of each attempt one: a frame that was cut off would hide what comes behind it."""
        out = _private.open_folder(self._out, 0o777)
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
            return _queue.high(_payload.open_ours_in(out, f"{self._out}/results-{self._attempt}", flags, 0o644))
        finally:
            os.close(out)

    def _keep_results(self) -> None:
        """Makes the folder and the file of results again, if a function has removed them."""
        if os.fstat(self._results).st_nlink:
            os.close(_private.open_folder(self._out, 0o777))
            return
        with open(f"/proc/self/fd/{self._results}", "rb") as file:
            until_now = file.read()
        os.close(self._results)
        self._results = self._open_results()
        self._watch_descriptors()
        self._write(until_now)

    def _sync(self) -> None:
        self._keep_results()
        os.fdatasync(self._results)

    def _write(self, frames: bytes) -> None:
        view = memoryview(frames)
        while view:
            view = view[os.write(self._results, view) :]

    def _tell(self, frame: bytes) -> None:
        self._write(frame)
        now = time.monotonic()
        if now - self._synced > SYNC_PERIOD:
            self._sync()
            self._synced = now
        if self._executor is not None:
            try:
                self._executor.sendall(frame)
            except OSError:
                self._executor = None

    def _connected(self) -> "socket.socket | None":
        """None: the executor is gone."""
        executor = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            executor.connect(f"/proc/self/fd/{self._queue.at}/socket")  # however long the path is
            executor = socket.socket(fileno=_queue.high(executor.detach()))
            executor.sendall(_results_log.frame(_queue.FREE, {"job": self._job, "attempt": self._attempt}, b""))
            return executor
        except OSError:
            executor.close()
            return None

    def _more(self) -> bool:
        """Whether to look again."""
        if self._executor is None:
            return False
        try:
            self._executor.sendall(_results_log.frame(_queue.FREE, {"idle": True}, b""))
            self._executor.settimeout(IDLE_LIMIT)
            word = self._executor.recv(1)
            self._executor.settimeout(None)
        except socket.timeout:  # TimeoutError from 3.10 on
            return False
        except OSError:
            word = b""
        if not word:
            self._executor = None
        return word != b"q"


def _set(changes: "dict[str, str | None]") -> None:
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _variables(environ: "Any") -> "dict[bytes, bytes]":
    """The dict inside os.environ: comparing it costs less than a microsecond."""
    variables: dict[bytes, bytes] = environ._data
    return variables


def _restore(wanted: "dict[bytes, bytes]") -> None:
    """Restores the environment."""
    now = _variables(os.environ)
    for name in [name for name in now if name not in wanted]:
        del os.environ[os.fsdecode(name)]
    for name, value in wanted.items():
        if now.get(name) != value:
            os.environ[os.fsdecode(name)] = os.fsdecode(value)


def _is_open(fd: int) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_GETFD)
        return True
    except OSError:
        return False


class _Streams:
    """stdout and stderr.  Each call gets those that the worker started with, or that the initializer left."""

    def __init__(self) -> None:
        self._kept = [_queue.high(os.dup(fd)) for fd in _STREAMS]
        self._paths = [os.readlink(f"/proc/self/fd/{fd}") for fd in _STREAMS]
        self._separated = 0  # size of the log
        self.take()

    def take(self) -> None:
        """Those of now."""
        for i, fd in enumerate(_STREAMS):
            if _is_open(fd):
                os.dup2(fd, self._kept[i], inheritable=False)
        self._files = [_file_of(fd) for fd in self._kept]
        self._objects: list[Any] = [getattr(sys, name, None) for name in _STREAMS.values()]

    def descriptors(self) -> "list[int]":
        return self._kept

    def reopen(self, lost: "set[int]") -> None:
        """Reopens the copies that a function has closed."""
        for i, (fd, kept) in enumerate(zip(_STREAMS, self._kept[:])):
            if kept not in lost:
                continue
            if _file_of(fd) == self._files[i]:
                self._kept[i] = _queue.high(os.dup(fd))
                continue
            try:
                again = _private.open_record(self._paths[i], os.O_WRONLY | os.O_APPEND)
            except OSError:
                again = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            self._kept[i] = _queue.high(again)
            self._files[i] = _file_of(self._kept[i])

    def separate(self, line: str) -> None:
        """Writes a line between earlier output, if there is any, and new output.  A reader of the end of the log, such as
        src/job/end_of_log.h, takes it for progress, and ignores everything above it."""
        try:
            if os.fstat(self._kept[1]).st_size != self._separated:
                os.write(self._kept[1], f"\n{line}\n".encode())
                self._separated = os.fstat(self._kept[1]).st_size
        except OSError:
            pass

    def restore(self) -> None:
        """Takes three microseconds if they are unchanged."""
        if not self._are_whole():
            self._repair()

    def _are_whole(self) -> bool:
        (out_file, error_file), (out, error) = self._files, self._objects
        try:
            if sys.stdout is not out or sys.stderr is not error or out.closed or error.closed:
                return False
            status = os.fstat(1)
            if (status.st_dev, status.st_ino) != out_file:
                return False
            status = os.fstat(2)
            return (status.st_dev, status.st_ino) == error_file
        except BaseException:  # deleted, closed, detached, or of the user
            return False

    def _repair(self) -> None:
        for i, (fd, name) in enumerate(_STREAMS.items()):
            if _file_of(fd) != self._files[i]:
                os.dup2(self._kept[i], fd)
            stream = self._objects[i]
            try:
                is_closed = getattr(stream, "closed", False)
            except BaseException:  # detached, or of the user
                is_closed = True
            if is_closed or stream is None:
                stream = self._objects[i] = open(fd, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
            if getattr(sys, name, None) is not stream:
                setattr(sys, name, stream)


_STREAMS = {1: "stdout", 2: "stderr"}


def _file_of(fd: int) -> "tuple[int, int] | None":
    try:
        status = os.fstat(fd)
        return status.st_dev, status.st_ino
    except OSError:
        return None


def main() -> None:
    Worker(sys.argv[1]).run()
