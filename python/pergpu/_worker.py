"""A warm worker: `python .../pergpu/_start.py _worker QUEUE`, a job that runs calls one after the other.

It takes calls from the queue (_queue.py), writes what they come to into `results-ATTEMPT` in its folder
and sends the same to the executor.  When the power fails, what a second has brought is lost at most.
Where there is nothing to do it waits for a word of the executor: b"w", look again, or b"q", end.  It ends
after a minute without a word; the executor starts another worker when there are calls again.  Where
the executor is gone it runs what is there, and ends.

When its job is started again at no charge (the call asked for that by exit code 75, or its GPU broke) the
new attempt begins with the call that the earlier one had.  A call that ended its worker is not run again.

A call that takes longer than it may ends the process by SIGALRM, also one that is in the middle of a
C function.
"""

import os
import signal
import socket
import sys
import time

TYPE_CHECKING = False

if TYPE_CHECKING or __package__:
    from . import _call, _main_module, _payload, _queue, _results_log
else:
    import _call
    import _main_module
    import _payload
    import _queue
    import _results_log

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
        self._log = os.dup(2)
        self._out = os.environ["PERGPU_OUT"]
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        # Of each attempt one: a frame that was cut off would hide what comes behind it.
        self._results = os.open(f"{self._out}/results-{self._attempt}", flags, 0o666)
        self._synced = time.monotonic()
        self._executor = self._connected()

    def run(self) -> None:
        """Until there is nothing to do any more."""
        head = _payload.Payload(self._folder + "/head")
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
                os.fdatasync(self._results)
                return

    def _begin(self, head: "_payload.Payload") -> bool:
        try:
            _main_module.take_place(head.head["main"])
            initializer = head.load()
            if initializer is not None:
                initializer[0](*initializer[1])
            return True
        except SystemExit:
            raise
        except BaseException as error:
            told, pickled, _ = _call.failure(error)
            self._tell(_results_log.frame(_queue.CANCELLED, {**told, "initializer": True}, pickled))
            raise SystemExit(1) from None

    def _unfinished(self) -> "list[int]":
        """Calls that the earlier attempt has taken and of which there is no result, unless it was a call that ended it."""
        if self._attempt == 1 or self._class_of_earlier() in OF_THE_CALL:
            return []
        done: set[int] = set()
        for attempt in range(1, self._attempt):
            try:
                with open(f"{self._out}/results-{attempt}", "rb") as file:
                    done.update(number for number, _ in _results_log.Reader().feed(file.read()))
            except FileNotFoundError:
                pass
        return [number for number in self._queue.taken_by(self._job) if number not in done]

    def _class_of_earlier(self) -> object:
        """How the earlier attempt ended (docs/failures.md); None: its record is not written yet."""
        import json

        try:
            with open(f"{self._out}/attempt.{self._attempt - 1}.json", "rb") as file:
                return json.load(file).get("class")
        except (OSError, ValueError):
            return None

    def _call(self, number: int) -> None:
        if self._timeout:
            signal.setitimer(signal.ITIMER_REAL, self._timeout)
        what: dict[str, object] = {"loading": True}
        before: "dict[str, str | None]" = {}
        try:
            function, args, kwargs, *more = self._queue.load(number)
            what = {}
            if more:
                before = _exchange(more[0])
            value = function(*args, **kwargs)
            _call.end_if_forked(self._pid)
            head: dict[str, object] = {"ok": True}
            pickled, buffers = _call.dump(value)
            del value, function, args, kwargs
        except SystemExit:
            raise  # it ends this process
        except BaseException as error:
            _call.end_if_forked(self._pid, error)
            head, pickled, buffers = _call.failure(error)
            head.update(what)
        finally:
            if self._timeout:
                signal.setitimer(signal.ITIMER_REAL, 0)
        if before:
            _exchange(before)
        _call.flush()
        _restore_streams(self._log)
        if buffers:
            path = f"{self._out}/result-{number}"
            _payload.write(path, {}, pickled, buffers)
            head["file"] = path
            pickled = b""
        self._tell(_results_log.frame(number, head, pickled))

    def _tell(self, frame: bytes) -> None:
        view = memoryview(frame)
        while view:
            view = view[os.write(self._results, view) :]
        now = time.monotonic()
        if now - self._synced > SYNC_PERIOD:
            os.fdatasync(self._results)
            self._synced = now
        if self._executor is not None:
            try:
                self._executor.sendall(frame)
            except OSError:
                self._executor = None

    def _connected(self) -> "socket.socket | None":
        """None: the executor is gone."""
        folder = os.open(self._folder, os.O_PATH | os.O_CLOEXEC)
        executor = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            executor.connect(f"/proc/self/fd/{folder}/socket")  # however long the path is
            executor.sendall(_results_log.frame(_queue.FREE, {"job": self._job, "attempt": self._attempt}, b""))
            return executor
        except OSError:
            executor.close()
            return None
        finally:
            os.close(folder)

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


def _exchange(changes: "dict[str, str | None]") -> "dict[str, str | None]":
    """Sets variables; what was there before."""
    before = {name: os.environ.get(name) for name in changes}
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    return before


def _restore_streams(log: int) -> None:
    """The next call can print, whatever this one has done to sys.stdout and sys.stderr."""
    for number, name in enumerate(("stdout", "stderr"), 1):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(log, number)
        if getattr(getattr(sys, name), "closed", True):
            setattr(sys, name, getattr(sys, f"__{name}__"))


def main() -> None:
    Worker(sys.argv[1]).run()
