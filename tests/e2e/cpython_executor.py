"""CPython's own tests of executors, for `pergpu.Executor`: python3 cpython_executor.py [-v] [NAME…]

They come from the package `test` of the Python that runs this: the mixins that it makes its test
classes of are put together with an executor on CPU lanes here.  What stands in LEFT_OUT is not run
(docs/cpython-tests.md tells people of it); what looks into a stock pool, or gets it by its name, and
has a promise behind it that is ours, too, stands here again in our words, under the name it has there.

NAME: a class of this file, or Class.test.  PERGPU_LONG=1: also those of LONG.  PERGPU_TEST_REUSE=1: warm
workers.  The last line that is
printed is JSON: how many were run, skipped and left out.
"""
import contextlib
import gc
import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import weakref
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool

from test import support
from test.support.script_helper import assert_python_ok

import pergpu


def part(name):
    """A file of test.test_concurrent_futures, which was a single one until Python 3.11."""
    try:
        return importlib.import_module("test.test_concurrent_futures." + name)
    except ModuleNotFoundError:
        return importlib.import_module("test.test_concurrent_futures")


util, deadlock, process_pool, shutdown = map(part, ("util", "test_deadlock", "test_process_pool", "test_shutdown"))

# Looks at _processes, _executor_manager_thread and their like, and promises nothing that we do.
INSIDE = "asserts the inside of ProcessPoolExecutor"
LEFT_OUT = {
    "ExecutorTest.test_max_workers_too_large": "a limit of Windows",
    "ExecutorTest.test_max_tasks_per_child": "each call has a process of its own, there is no such option",
    "ExecutorTest.test_max_tasks_per_child_defaults_to_spawn_context": "there is no such option",
    "ExecutorTest.test_max_tasks_early_shutdown": "there is no such option",
    "ExecutorTest.test_idle_process_reuse_one": INSIDE + ": how many processes it has started",
    "ExecutorTest.test_idle_process_reuse_multiple": INSIDE + ": how many processes it has started",
    "ExecutorTest.test_python_finalization_error": INSIDE + ": makes the second of its threads fail",
    "DeadlockTest.test_gh105829_should_not_deadlock_if_wakeup_pipe_full": INSIDE + ": replaces the pipe between its threads",
}
# Those that sleep for seconds.
LONG = {
    "ExecutorTest.test_map_timeout",
    "ExecutorTest.test_saturation",
    "WaitTest.test_first_exception",
    "WaitTest.test_first_exception_one_already_failed",
    "WaitTest.test_timeout",
    "WaitTest.test_pending_calls_race",
    "ShutdownTest.test_hang_issue12364",
}

DEADLINE = 60
REUSE = os.environ.get("PERGPU_TEST_REUSE") == "1"


class Pool(pergpu.Executor):
    """How the processes begin is nothing that one could choose."""

    def __init__(self, max_workers=None, mp_context=None, **options):
        super().__init__(max_workers, **{"gpus": 0, "lanes": max_workers, "timeout": "120s", "reuse": REUSE, **options})


class Mixin(util.ExecutorMixin):
    executor_type = Pool

    def get_context(self):
        """None: without `ctx` the mixins treat us as the pool of threads, which pickles nothing."""


class Case(util.BaseTestCase):
    def tearDown(self):
        gc.collect()  # the frames of what could not be unpickled know the executor
        super().tearDown()


def eventually(happened):
    end = time.monotonic() + DEADLINE
    while not happened():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def touch(path):
    open(path, "w").close()


def wait_for(path, then=None):
    """In a call.  `then`: a file that it leaves behind."""
    while not os.path.exists(path):
        time.sleep(0.01)
    if then is not None:
        touch(then)
    return os.getpid()


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("pergpu")]


class Files:
    """What tests of threads share by variables, and those of processes by semaphores."""

    def setUp(self):
        super().setUp()
        self.folder = os.path.join(os.getcwd(), self.id().rpartition(".")[2])
        os.makedirs(self.folder)

    def path(self, name):
        return os.path.join(self.folder, str(name))


class LeavesFile:
    """Tells when it is collected."""

    def __init__(self, path):
        self.path = path
        self.maker = os.getpid()

    def __del__(self):
        if os.getpid() != self.maker:
            touch(self.path)


class ExecutorTest(Files, process_pool.ProcessPoolExecutorTest, Mixin, Case):
    def test_killed_child(self):
        """Ours goes on."""
        future = self.executor.submit(wait_for, self.path("never"))
        eventually(future.running)
        future.kill()
        self.assertRaises(BrokenProcessPool, future.result)
        self.assertEqual(self.executor.submit(pow, 2, 8).result(), 256)

    @classmethod
    def _test_traceback(cls):
        raise RuntimeError(123)  # some comment

    def test_traceback(self):
        """The cause is a class of ours."""
        with self.assertRaises(RuntimeError) as caught:
            self.executor.submit(self._test_traceback).result()
        self.assertEqual(caught.exception.args, (123,))
        self.assertEqual(type(caught.exception.__cause__).__name__, "RemoteTraceback")
        self.assertIn("raise RuntimeError(123)  # some comment", str(caught.exception.__cause__))
        with support.captured_stderr() as shown:
            sys.excepthook(RuntimeError, caught.exception, None)
        self.assertIn("raise RuntimeError(123)  # some comment", shown.getvalue())

    def test_ressources_gced_in_workers(self):
        """An event of a multiprocessing.Manager is for its own children only."""
        self.executor.submit(id, LeavesFile(self.path("collected"))).result()
        self.assertTrue(os.path.exists(self.path("collected")))

    def test_saturation(self):
        """Of as many processes as there are jobs, only so many run at once."""
        count = 15 * self.worker_count
        running = [self.executor.submit(wait_for, self.path("open"), self.path(i)) for i in range(count)]
        eventually(lambda: sum(future.running() for future in running) == self.worker_count)
        time.sleep(0.2)
        self.assertEqual(sum(future.running() for future in running), self.worker_count)
        touch(self.path("open"))
        self.executor.shutdown()
        self.assertEqual(len(os.listdir(self.folder)), count + 1)

    # Of the pool of threads.

    def test_map_submits_without_iteration(self):
        self.executor.map(touch, map(self.path, range(10)))
        self.executor.shutdown(wait=True)
        self.assertCountEqual(os.listdir(self.folder), map(str, range(10)))

    def test_executor_map_current_future_cancel(self):
        with self.executor_type(max_workers=1) as pool:
            first = pool.submit(wait_for, self.path("open"), self.path("first"))
            with contextlib.closing(pool.map(wait_for, 2 * [self.path("open")], map(self.path, "ab"), timeout=0)) as rest:
                with self.assertRaises(futures.TimeoutError):
                    next(rest)
            touch(self.path("open"))
            first.result()
        self.assertCountEqual(os.listdir(self.folder), ["open", "first"])


class ShutdownTest(Files, shutdown.ProcessPoolShutdownTest, Mixin, Case):
    def test_processes_terminate(self):
        running = [self.executor.submit(wait_for, self.path("open")) for _ in range(3)]
        touch(self.path("open"))
        self.executor.shutdown()
        for future in running:
            self.assertRaises(ProcessLookupError, os.kill, future.result(), 0)
        self.assertEqual(threads(), [])

    def test_context_manager_shutdown(self):
        with self.executor_type(max_workers=5) as pool:
            self.assertEqual(list(pool.map(abs, range(-5, 5))), [5, 4, 3, 2, 1, 0, 1, 2, 3, 4])
        self.assertEqual(threads(), [])

    def test_del_shutdown(self):
        pool = self.executor_type(max_workers=5)
        gone = weakref.ref(pool)
        results = pool.map(abs, range(-5, 5))
        del pool
        gc.collect()
        self.assertIsNone(gone())
        eventually(lambda: not threads())
        self.assertEqual(list(results), [5, 4, 3, 2, 1, 0, 1, 2, 3, 4])

    def test_shutdown_no_wait(self):
        pool = self.executor_type(max_workers=5)
        results = pool.map(abs, range(-5, 5))
        pool.shutdown(wait=False)
        eventually(lambda: not threads())
        self.assertEqual(list(results), [5, 4, 3, 2, 1, 0, 1, 2, 3, 4])

    def test_cancel_futures(self):
        """Not before one has begun: a process takes longer for that than a thread.  Those that have are held at a gate."""
        with tempfile.TemporaryDirectory() as folder:
            words = ["sh", "-c", f"until [ -e {folder}/open ]; do sleep 0.05; done"]
            all_of_them = [self.executor.submit(subprocess.call, words) for _ in range(50)]
            eventually(lambda: any(future.running() for future in all_of_them))
            self.executor.shutdown(wait=False, cancel_futures=True)
            with open(folder + "/open", "w", encoding="ascii"):
                pass
            self.executor.shutdown()
        others = [future for future in all_of_them if not future.cancelled()]
        self.assertTrue(0 < len(others) <= self.worker_count, len(others))
        self.assertEqual([(future.done(), future.result()) for future in others], len(others) * [(True, 0)])

    # In an interpreter of their own.  What a call prints is in its log.

    def _end_of(self, text, name):
        """What an interpreter has printed at its end, and the futures of its calls."""
        begin = f"from {shutdown.__name__} import sleep_and_print\nimport atexit, pergpu\n"
        pool = f"pergpu.Executor(5, gpus=0, lanes=5, name={name!r})"
        _, out, err = assert_python_ok("-c", begin + text.replace("POOL", pool), PYTHONPATH=os.environ["PYTHONPATH"])
        return out.decode(), err.decode()

    def test_interpreter_shutdown(self):
        told = self._end_of("t = POOL\nt.submit(sleep_and_print, 1.0, 'apple')", "ends")
        self.assertEqual(told, ("", ""))
        self.assertEqual([(call.done(), call.logs()) for call in pergpu.attach("ends")], [(True, "apple\n")])

    def test_hang_gh83386(self):
        """As it was meant."""
        told = self._end_of("t = POOL\nt.submit(sleep_and_print, 1.0, 'apple')\nt.shutdown(wait=False)", "nowait")
        self.assertEqual(told, ("", ""))
        self.assertEqual([(call.done(), call.logs()) for call in pergpu.attach("nowait")], [(True, "apple\n")])

    def test_cancel_futures_wait_false(self):
        told = self._end_of(
            "t = POOL\nt.submit(sleep_and_print, 0.1, 'apple').job\nt.shutdown(wait=False, cancel_futures=True)", "cancels"
        )
        self.assertEqual(told, ("", ""))
        self.assertIn([(call.cancelled(), call.logs()) for call in pergpu.attach("cancels")], [[(True, "")], [(False, "apple\n")]])

    def test_submit_after_interpreter_shutdown(self):
        """Where there were calls before, and where there were none."""
        for before in ("t.submit(id, 42).result()", ""):
            with self.subTest(before):
                out, err = self._end_of(f"""
@atexit.register
def run_last():
    try:
        t.submit(id, None)
    except RuntimeError:
        print("runtime-error")
        raise
t = POOL
{before}
""", "after")  # fmt: skip
                self.assertIn("RuntimeError: cannot schedule new futures", err)
                self.assertEqual(out.strip(), "runtime-error")


class WaitTest(Files, part("test_wait").WaitTests, Mixin, Case):
    def test_pending_calls_race(self):
        """Of the pool of threads."""
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            waiting = {self.executor.submit(wait_for, self.path("open")) for _ in range(100)}
            touch(self.path("open"))
            futures.wait(waiting, return_when=futures.ALL_COMPLETED)
        finally:
            sys.setswitchinterval(before)
        self.assertTrue(all(future.done() for future in waiting))


class AsCompletedTest(part("test_as_completed").AsCompletedTests, Mixin, Case):
    pass


class InitializerTest(part("test_init").InitializerMixin, Mixin, Case):
    pass


class FailingInitializerTest(part("test_init").FailingInitializerMixin, Mixin, Case):
    pass


class DeadlockTest(deadlock.ExecutorDeadlockTest, Mixin, Case):
    TIMEOUT = DEADLINE

    def test_exit_during_func_exec_on_worker(self):
        """sys.exit() ends a job, by 75 it asks for another attempt: it is no exception of the call."""
        self._check_crash(BrokenProcessPool, deadlock._exit)

    def test_exit_during_result_pickle_on_worker(self):
        self._check_crash(BrokenProcessPool, deadlock._return_instance, deadlock.ExitAtPickle)

    def test_shutdown_deadlock_pickle(self):
        self.executor.shutdown(wait=True)
        with self.executor_type(max_workers=2) as pool:
            pool.submit(id, 42).result()
            future = pool.submit(id, deadlock.ErrorAtPickle())
            pool.shutdown(wait=False)
            with self.assertRaises(deadlock.PicklingError):
                future.result()
        self.assertEqual(threads(), [])

    def test_only_the_dead_call_fails(self):
        """At whatever stage it dies; a stock pool is broken by the first one."""
        returns = deadlock._return_instance
        bad = [
            *[(id, kind()) for kind in (deadlock.ErrorAtPickle, deadlock.ErrorAtUnpickle, deadlock.ExitAtUnpickle, deadlock.CrashAtUnpickle)],
            *[(call,) for call in (deadlock._crash, deadlock._exit)],
            *[(returns, kind) for kind in (deadlock.ErrorAtPickle, deadlock.ExitAtPickle, deadlock.CrashAtPickle)],
            *[(returns, kind) for kind in (deadlock.ErrorAtUnpickle, deadlock.ExitAtUnpickle)],
        ]  # fmt: skip
        good = []
        ended = []
        for call in bad:
            ended.append(self.executor.submit(*call))
            good.append(self.executor.submit(pow, 2, len(good)))
        with support.captured_stderr():
            stderr = sys.stderr
            for future in ended:
                self.assertIsNotNone(future.exception(self.TIMEOUT))
                sys.stderr = stderr
        self.assertEqual([future.result(self.TIMEOUT) for future in good], [2**i for i in range(len(good))])
        self.assertEqual(self.executor.submit(pow, 3, 2).result(), 9)


def chosen(names):
    """The tests of the classes here, and how many are left out, or are for ./test --all only."""
    loader = unittest.TestLoader()
    suite, left, long = unittest.TestSuite(), 0, 0
    for case in (value for value in list(globals().values()) if isinstance(value, type) and issubclass(value, unittest.TestCase)):
        for method in loader.getTestCaseNames(case):
            name = f"{case.__name__}.{method}"
            if names and name not in names and case.__name__ not in names:
                continue
            if name in LEFT_OUT:
                left += 1
            elif name in LONG and name not in names and os.environ.get("PERGPU_LONG") != "1":
                long += 1
            else:
                suite.addTest(case(method))
    return suite, left, long


def main():
    names = [word for word in sys.argv[1:] if word != "-v"]
    suite, left, long = chosen(names)
    result = unittest.TextTestRunner(sys.stdout, verbosity=2 if "-v" in sys.argv else 1).run(suite)
    if support.environment_altered:
        print("threads or processes were left behind, see the warnings")
    print(json.dumps({"run": result.testsRun, "skipped": len(result.skipped), "left_out": left, "only_long": long}))
    sys.exit(not result.wasSuccessful() or support.environment_altered)


if __name__ == "__main__":
    main()
