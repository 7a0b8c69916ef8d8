"""A warm worker: `python .../pergpu/_start.py _worker QUEUE`, a job that runs calls one after the other.

It takes calls from the queue (_queue.py), writes what they come to into `results-ATTEMPT` in its folder
and sends the same to the executor.  When the power fails, what a second has brought is lost at most.
Where there is nothing to do it waits for a word of the executor: b"w", look again, or b"q", end.  Where
the executor is gone it runs what is there, and ends.

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
        os.environ.update(head.head["env"])
        if not self._begin(head):
            return
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

    def _call(self, number: int) -> None:
        if self._timeout:
            signal.setitimer(signal.ITIMER_REAL, self._timeout)
        what: dict[str, object] = {"loading": True}
        try:
            function, args, kwargs = self._queue.load(number)
            what = {}
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
            word = self._executor.recv(1)
        except OSError:
            word = b""
        if not word:
            self._executor = None
        return word != b"q"


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
