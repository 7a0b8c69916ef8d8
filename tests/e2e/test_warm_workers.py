"""`pergpu.Executor(reuse=True)`: calls that share workers, each of which is a job."""
import json
import os
import signal

import harness
from test_executor import begun, python, rest_of  # noqa: F401  a fixture among them

WARM = """
def warm(workers=2, **options):
    return pool(workers, **{"reuse": True, "timeout": None, **options})
"""


def test_workers_take_many_calls(home):
    home.file("shared.py", """
import os
count = 0
def begin():
    global count
    count = 100
def f(x):
    global count
    count += 1
    return x * x, count, os.environ["PERGPU_JOB"]
""")
    out = python(home, WARM + """
from shared import begin, f
with warm(name="w", initializer=begin) as calls:
    found = [future.result() for future in [calls.submit(f, i) for i in range(1000)]]
    print([x for x, _, _ in found] == [i * i for i in range(1000)], len({job for _, _, job in found}) <= 2)
    print(min(n for _, n, _ in found), calls.submit(lambda: "closure").result(), list(calls.map(abs, range(-3, 0))))
""")  # fmt: skip
    assert out.splitlines() == ["True True", "101 closure [3, 2, 1]"]
    assert set(home.states("w").values()) <= {"done", "cancelled"} and len(home.states("w")) <= 2
    assert home.json("show", "w")["jobs"][0]["params"] == {"queue": "queue-0", "number": 0}


def test_a_call_that_dies_takes_its_worker_along_and_nothing_else(home):
    out = python(home, WARM + """
def die(how):
    if how == "exit":
        print("last words", flush=True)
        os._exit(3)
    if how == "leave":
        sys.exit(5)
    if how == "raise":
        raise KeyError("x")
    if how == "sleep":
        time.sleep(600)
    if how == "unpicklable":
        return (i for i in ())
    return how
hows = ["exit", "raise", "leave", "unpicklable", "sleep", "good"]
with warm(2, timeout="2s") as calls:
    futures = [calls.submit(die, how) for how in hows for _ in range(2)]
    print([type(future.exception()).__name__ for future in futures])
    print(futures[0].exception().reason, "last words" in str(futures[0].exception()), futures[4].exception().outcome["exit"])
    print(futures[8].exception().state, futures[8].exception().reason, futures[-1].result())
""")  # fmt: skip
    died, reason, rest = out.splitlines()[:1], out.splitlines()[1], out.splitlines()[2]
    assert eval(died[0]) == 2 * ["JobFailed"] + 2 * ["KeyError"] + 2 * ["JobFailed"] + 2 * ["TypeError"] + 2 * ["JobFailed"] + 2 * ["NoneType"], out
    assert reason == "exit code 3 True 5" and rest == "timeout it took longer than 2s good"


def test_the_time_of_a_call_is_written_in_any_way(home):
    out = python(home, WARM + """
import datetime
texts = ["01:30:05", "2 hours 30 minutes", "1w2d", "1.5h", "90 min", "250ms", datetime.timedelta(seconds=2.5), None]
print([warm(1, timeout=text)._calls._timeout for text in texts])
with warm(1, timeout="00:00:01") as calls:
    print(calls.submit(time.sleep, 100).exception().reason)
""")  # fmt: skip
    assert out == "[5405.0, 9000.0, 777600.0, 5400.0, 5400.0, 0.25, 2.5, 0]\nit took longer than 1s\n"


def test_large_arguments_and_results_are_files(home):
    out = python(home, WARM + """
import numpy
with warm(1, name="w") as calls:
    a = calls.submit(numpy.add, numpy.ones(10**6), 1).result()
    a[0] = 5
    print(a.sum(), a.nbytes, calls.submit(numpy.arange, 10).result().sum())
""")  # fmt: skip
    assert out == "2000003.0 8000000 45\n"


def test_cancel_and_shutdown(home, begun):  # noqa: F811
    home.close_gate()
    process = begun(WARM + """
with warm(1, name="w") as calls:
    futures = [calls.submit(stamp, i) for i in range(5)]
    while not futures[0].running():
        time.sleep(0.01)
    print(futures[0].cancel(), futures[2].cancel(), futures[2].cancelled(), flush=True)
    print(futures[1].result())
    calls.shutdown(cancel_futures=True, wait=False)
print([future.cancelled() for future in futures[:3]], all(future.done() for future in futures))
""")
    assert process.stdout.readline() == "False True True\n"
    home.open_gate()
    assert rest_of(process).splitlines() == ["1", "[False, False, True] True"]
    assert [*home.states("w").values()] == ["done"]


def test_a_failing_initializer_is_everybodys_end(home):
    out = python(home, WARM + """
def fail():
    raise OSError("no data")
def leave():
    os._exit(7)
def say():
    sys.exit("the data isn't mounted")
for begin in (fail, leave, say):
    with warm(1, initializer=begin) as calls:
        futures = [calls.submit(abs, i) for i in range(3)]
        print({type(future.exception()).__name__ for future in futures}, futures[0].exception())
""")  # fmt: skip
    told = [line for line in out.splitlines() if line.startswith("{")]
    assert told[0] == "{'BrokenExecutor'} the initializer has failed: OSError: no data"
    assert told[1].startswith("{'BrokenExecutor'} workers end before they take a call: exit code 7; log: /"), out
    assert told[2].startswith("{'BrokenExecutor'} workers end before they take a call: exit code 1; the last lines of /"), out
    assert "\nthe data isn't mounted\n" in out


def test_what_is_killed_goes_on_and_is_found_again(home, begun):  # noqa: F811
    home.close_gate()
    process = begun(WARM + """
calls = warm(4, name="forty")
futures = [calls.submit(stamp, i) for i in range(40)]
print("begun")
time.sleep(600)
""")
    assert process.stdout.readline() == "begun\n"
    home.until_running(4)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    home.open_gate()
    out = python(home, """
futures = pergpu.attach("forty")
print([future.result() for future in futures])
""")  # fmt: skip
    assert out == f"{[i * i for i in range(40)]}\n"
    assert sorted(home.stamps.of("start")) == [*range(40)], "each once"
    assert [*home.states("forty").values()] == 4 * ["done"]


def test_what_killed_workers_leave_is_taken_up_by_attach(home, begun):  # noqa: F811
    home.close_gate()
    process = begun(WARM + """
calls = warm(2, name="w")
futures = [calls.submit(stamp, i) for i in range(6)]
print("begun")
time.sleep(600)
""")
    assert process.stdout.readline() == "begun\n"
    home.until_running(2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    for pid in home.stamps.of("start", 3):
        os.kill(pid, signal.SIGKILL)
    home.wait("w")
    home.open_gate()
    out = python(home, """
print([type(future.exception()).__name__ if future.exception() else future.result() for future in pergpu.attach("w")])
""")  # fmt: skip
    assert eval(out) == ["JobFailed", "JobFailed", 4, 9, 16, 25]
    assert sorted(home.stamps.of("start")) == [*range(6)], "each once"


def test_executors_leave_no_open_files_and_may_differ_in_their_timeout(home):
    out = python(home, WARM + """
import gc
open_files = []
for i in range(4):
    for options in (dict(name="w", timeout=f"{i + 5}s"), dict(name="c", reuse=False, timeout=f"{i + 5}s")):
        with warm(1, **options) as calls:
            assert calls.submit(abs, -i).result() == i
        del calls
    gc.collect()
    open_files.append(len(os.listdir("/proc/self/fd")))
print(open_files[1:] == open_files[:-1], [future.result() for future in pergpu.attach("w")])
""")  # fmt: skip
    assert out == "True [0, 1, 2, 3]\n"


def test_retries_are_refused(home):
    out = python(home, WARM + """
try:
    warm(retries=2)
except ValueError as error:
    print(error)
""")  # fmt: skip
    assert out == "retries need a process for each call; leave out reuse=True\n"
    assert json.dumps(home.ps()) == "{}" and harness.DEADLINE


def test_each_call_has_the_environment_of_its_submit(home):
    out = python(home, WARM + """
def begin():
    os.environ["OF_INITIALIZER"] = "i"
def change(how):
    if how == "set":
        os.environ["LEFT"], os.environ["OF_INITIALIZER"] = "leak", "leak"
    elif how == "clear":
        os.environ.clear()
    elif how == "replace":
        os.environ = {}
    return how
def seen():
    import subprocess
    child = subprocess.run(["/bin/sh", "-c", "echo $LEFT $OF_INITIALIZER $OF_SUBMIT"], stdout=subprocess.PIPE, text=True).stdout.split()
    return child, [os.environ.get(name) for name in ("LEFT", "OF_INITIALIZER", "OF_SUBMIT", "PERGPU_JOB")]
with warm(1, initializer=begin) as calls:
    job = calls.submit(os.getenv, "PERGPU_JOB").result()
    for how in ("set", "clear", "replace", "set"):
        os.environ["OF_SUBMIT"] = how
        changed = calls.submit(change, how)
        del os.environ["OF_SUBMIT"]
        print(changed.result(), calls.submit(seen).result() == (["i"], [None, "i", None, job]))
""")  # fmt: skip
    assert out.splitlines() == ["set True", "clear True", "replace True", "set True"]


def test_a_call_may_remove_its_folder(home):
    out = python(home, WARM + """
import numpy, shutil
with warm(1, name="w") as calls:
    print(calls.submit(abs, -7).result())
    calls.submit(eval, "__import__('shutil').rmtree(__import__('os').environ['PERGPU_OUT'])").result()
    print(calls.submit(numpy.ones, 10**6).result().sum(), calls.submit(abs, -5).result())
print([future.result() for future in pergpu.attach("w")][0::3])
""")  # fmt: skip
    assert out.splitlines() == ["7", "1000000.0 5", "[7, 5]"]


def test_no_call_takes_the_timeout_from_the_next(home):
    out = python(home, WARM + """
import signal
def change(how):
    if how == "ignore":
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
    elif how == "block":
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    else:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        time.sleep(1.5)
    return how
with warm(1, timeout="1s") as calls:
    for how in ("ignore", "block", "pending"):
        print(calls.submit(change, how).result(), calls.submit(abs, -1).result(), calls.submit(time.sleep, 30).exception().state)
""")  # fmt: skip
    assert out.splitlines() == ["ignore 1 timeout", "block 1 timeout", "pending 1 timeout"]


def test_each_call_can_print(home):
    out = python(home, WARM + """
import io
class Broken(io.StringIO):
    closed = property(lambda self: 1 / 0)
class Exits(io.StringIO):
    def flush(self):
        raise KeyboardInterrupt
class Raises(io.StringIO):
    def write(self, text):
        raise OSError
    flush = write
def change(how):
    if how in ("null", "full", "pipe"):
        if how == "pipe":
            out, fd = os.pipe()
            os.close(out)
        else:
            fd = os.open("/dev/" + how, os.O_WRONLY)
        os.dup2(fd, 1)
        os.close(fd)
        try:
            print("lost")
        except OSError:
            pass
    elif how == "close":
        sys.stdout.close()
    elif how == "detach":
        sys.stdout.detach()
    elif how == "delete":
        del sys.stdout, sys.stderr
    elif how == "fds":
        os.closerange(3, 100)
    elif how == "all":
        os.closerange(0, 5000)
    else:
        sys.stdout = sys.stderr = {"broken": Broken, "exits": Exits, "raises": Raises}[how]()
    return how
def prints(how):
    print("after", how, flush=True)
    print("also", how, file=sys.stderr)
    return how
for reuse in (True, False):
    with warm(1, reuse=reuse) as calls:
        jobs = set()
        for how in ("null", "full", "pipe", "close", "detach", "delete", "fds", "broken", "exits", "raises", "all"):
            one = calls.submit(change, how)
            assert one.result() == how
            if reuse:
                two = calls.submit(prints, how)
                assert two.result() == how
                jobs.add(two.job)
                assert f"after {how}\\n" in two.logs() and f"also {how}\\n" in two.logs(), (how, two.logs())
        print(len(jobs))
""")  # fmt: skip
    assert out.splitlines() == ["1", "0"], out


def test_each_call_finds_the_main_module(home):
    out = python(home, WARM + """
import types
def changes(how):
    if how == "delete":
        del sys.modules["__main__"]
    else:
        sys.modules["__main__"] = types.ModuleType("__main__")
def other():
    return 3
def calls_another():
    return other(), sys.modules["__main__"].other is other
with warm(1) as calls:
    for how in ("delete", "replace"):
        calls.submit(changes, how).exception()
        print(calls.submit(calls_another).result())
""")  # fmt: skip
    assert out == 2 * "(3, True)\n"


def test_how_a_call_ends_its_worker_is_told_by_its_own_output(home):
    """Not by what an earlier call has raised or printed."""
    out = python(home, WARM + """
def raises(words):
    raise RuntimeError(words)
def prints(words):
    print(words, end="")
def ends(code):
    with open("ends", "a") as file:
        file.write("x")
    print("goes", flush=True)
    os._exit(code)
def dies():
    os.kill(os.getpid(), 9)
for words in ("diverged", "CUDA error: uncorrectable ECC error encountered", "CUDA error: out of memory", "No space left on device"):
    for earlier in (raises, prints):
        with warm(1) as calls:
            calls.submit(earlier, words).exception()
            error = calls.submit(ends, 3).exception()
            print(error.reason, error.outcome["class"], str(error).splitlines()[2:])
with warm(1) as calls:
    calls.submit(raises, "diverged").exception()
    error = calls.submit(dies).exception()
    print(error.reason, "last lines" in str(error))
    last = calls.submit(raises, "own words")
    print(last.exception(), "RuntimeError: own words" in last.logs())
print(os.path.getsize("ends"))
""")  # fmt: skip
    assert out.splitlines() == [*["exit code 3 exit ['goes']"] * 8, "killed by signal 9 (SIGKILL) False", "own words True", "8"], out
