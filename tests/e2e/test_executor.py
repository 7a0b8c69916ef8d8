"""`pergpu.Executor`: calls that are jobs, their futures, and what awkward functions come to."""
import json
import os
import re
import signal
import subprocess
import sys

import pytest

import harness
from harness import wait_until

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python")
BEGIN = """
import concurrent.futures, json, os, sys, time
import pergpu
def pool(workers=2, **options):
    return pergpu.Executor(workers, **{"gpus": 0, "lanes": workers, "timeout": "60s", **options})
def stamp(i):
    with open(os.environ["STAMPS"], "a") as file:
        file.write(f"start {i} 1 {os.getpid()} - -\\n")
    os.system('flock -s "$GATE" true')
    return i * i
"""


def environment(home):
    return {**home.env, "PYTHONPATH": PACKAGE, "PERGPU_BIN": harness.PERGPU, "PYTHONDONTWRITEBYTECODE": "1"}


def python(home, text, code=0):
    """The output of a script, in the work folder."""
    script = home.file("script.py", BEGIN + text)
    process = subprocess.run(
        [sys.executable, script], cwd=home.work, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        timeout=240, env=environment(home),
    )  # fmt: skip
    assert process.returncode == code, process.stdout
    return process.stdout


@pytest.fixture
def begun(home):
    """Starts a script that goes on while the test looks."""

    def begin(text):
        script = home.file("script.py", BEGIN + text)
        with harness.starting:
            process = subprocess.Popen([sys.executable, "-u", script], cwd=home.work, text=True, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, env=environment(home))  # fmt: skip
            harness.started.add(process.pid)
        home.started.append(process)
        return process

    return begin


def rest_of(process):
    """What it prints until its end; communicate() would pass over what readline() has buffered."""
    rest = process.stdout.read()
    assert process.wait(timeout=harness.DEADLINE) == 0, rest
    return rest


def test_a_call_is_a_job_in_a_process_of_its_own(home):
    out = python(home, """
scale = 3
def f(x, *, plus=0):
    print("in", x)
    pergpu.report(step=1, loss=x / 2)
    return scale * x + plus, os.getpid(), os.environ["PERGPU_JOB"], os.getcwd()
with pool(name="calls") as calls:
    one, two = calls.submit(f, 1), calls.submit(f, x=2, plus=10)
    assert calls.submit(lambda: scale).result() == 3
    print(json.dumps([one.result(), two.result(), one.job, two.job, one.outcome["state"], two.metrics, one.logs()]))
""")  # fmt: skip
    one, two, *rest = json.loads(out)
    assert (one[0], two[0]) == (3, 16) and one[1] != two[1] and {one[3], two[3]} == {home.work}
    assert rest == [int(one[2]), int(two[2]), "done", {"step": 1, "loss": 1}, "in 1\n"]
    jobs = home.ps("calls")
    assert len(jobs) == 3 and {job["state"] for job in jobs.values()} == {"done"}
    params = [job["params"] for job in home.json("show", "calls")["jobs"]]
    assert params[0] == {"number": 0, "what": "f(x=1)"} and params[1]["what"] == "f(x=2, plus=10)"


def test_what_a_call_raises_comes_back_with_its_traceback(home):
    out = python(home, """
class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(a)
class Closed(Exception):
    def __init__(self, words):
        super().__init__(words)
        self.lock = __import__("threading").Lock()
def f(which):
    raise {"value": ValueError("bad"), "odd": Odd(1, 2), "closed": Closed("words")}[which]
with pool() as calls:
    for which in ("value", "odd", "closed"):
        error = calls.submit(f, which).exception()
        print(type(error).__name__, error, "| in f" if "in f" in str(error.__cause__) else error.__cause__)
    try:
        calls.submit(f, "value").result()
    except ValueError:
        import traceback; traceback.print_exc(file=sys.stdout)
    print(calls.submit(len, "good").result())
""")  # fmt: skip
    lines = out.splitlines()
    assert lines[:3] == ["ValueError bad | in f", "Odd 1 | in f", "Closed words | in f"], out
    assert "pergpu.RemoteTraceback" in out and 'raise {"value": ValueError("bad")' in out and lines[-1] == "4"
    assert sorted(home.states().values()) == ["done"] + 4 * ["failed"]


def test_what_cannot_go_along_is_named(home):
    out = python(home, """
import threading, types
lock = threading.Lock()
torch = types.ModuleType("torch")
class Tensor:
    is_cuda = True
Tensor.__module__ = "torch"
weights = Tensor()
def of_gpu():
    return weights
def of_lock():
    return lock
with pool() as calls:
    for call in ((of_gpu,), (of_lock,), (print, (i for i in ())), (lambda x: x, {"w": [weights]})):
        print(repr(calls.submit(*call).exception()))
    print(calls.submit(len, "good").result())
""")  # fmt: skip
    gpu, lock, generator, argument, good = out.splitlines()
    assert "the global `weights` in the body of of_gpu is, or holds, a tensor in GPU memory" in gpu
    assert "the global `lock`" in lock and "_thread.lock" in lock
    assert generator.startswith("PicklingError(\"argument 0 of print can't be sent") and "generator" in generator
    assert "argument 0 of <lambda> is, or holds, a tensor" in argument and good == "4"
    assert len(home.ps()) == 1


def test_an_open_file_is_neither_an_argument_nor_a_result(home):
    out = python(home, """
def opens():
    return open(__file__)
def streams(out):
    return out is sys.stdout, sys.stderr
with pool(1, reuse=True) as calls:
    print(repr(calls.submit(len, open(__file__)).exception()))
    print(repr(calls.submit(opens).exception()))
    print(calls.submit(streams, sys.stdout).result() == (True, sys.stderr))
""")  # fmt: skip
    assert out.splitlines() == [
        'PicklingError("argument 0 of len can\'t be sent to another process: cannot pickle an open file")',
        "TypeError('cannot pickle an open file')",
        "True",
    ]


def test_a_call_that_dies_costs_nothing_but_itself(home):
    out = python(home, """
import ctypes, signal
def die(how):
    if how == "exit":
        os._exit(3)
    if how == "segv":
        ctypes.string_at(0)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "leave":
        sys.exit(0)
    if how == "sleep":
        time.sleep(600)
with pool(timeout="2s") as calls:
    futures = {how: calls.submit(die, how) for how in ("exit", "segv", "kill", "leave", "sleep", "good")}
    for how, future in futures.items():
        error = future.exception()
        if error is None:
            print(how, future.result())
            continue
        assert isinstance(error, concurrent.futures.BrokenExecutor) and isinstance(error, pergpu.JobFailed)
        print(how, error.state, error.outcome["exit"], error.outcome["signal"], str(error).splitlines()[0])
""")  # fmt: skip
    told = {line.split()[0]: line.split(None, 4) for line in out.splitlines()}
    assert told["exit"][1:3] == ["failed", "3"] and told["segv"][3] == "11" and told["kill"][3] == "9", out
    assert told["leave"][1] == "done" and "it left no result" in told["leave"][4], out
    assert told["sleep"][1] == "timeout" and told["good"] == ["good", "None"], out


def test_awkward_functions_come_to_a_clear_end(home):
    out = python(home, """
import shutil, subprocess
def removes_its_folder():
    shutil.rmtree(pergpu.out)
    return "removed"
def leaves_daemons():
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(600)
            os._exit(0)
    return "left"
def prints():
    for i in range(10**6):
        print("line", i)
    return "printed"
def nests(n):
    if n == 0:
        return [os.environ["PERGPU_SWEEP"]]
    with pool(1, name=f"inner{n}") as inner:
        return [os.environ["PERGPU_SWEEP"], *inner.submit(nests, n - 1).result()]
with pool(name="outer") as calls:
    futures = [calls.submit(*call) for call in ((removes_its_folder,), (leaves_daemons,), (prints,), (nests, 2))]
    for future in futures:
        print(future.result())
    print(len(futures[2].logs().splitlines()))
""")  # fmt: skip
    assert out.splitlines() == ["removed", "left", "printed", "['outer', 'inner2', 'inner1']", "1000000"]


def test_arrays_are_mapped_from_the_result(home):
    pytest.importorskip("numpy")
    out = python(home, """
import numpy
def f(n, a):
    a[0] = 7.0
    return {"zeros": numpy.zeros(n, numpy.float32), "sum": float(a.sum()), "column": numpy.arange(6).reshape(2, 3)[:, 1]}
with pool(memory="3GiB") as calls:
    a = numpy.ones(1_000_000)
    found = calls.submit(f, 50_000_000, a).result()
    found["zeros"][1] = 1
    print(a[0], found["sum"], found["zeros"].nbytes, found["zeros"][:3], found["column"])
""")  # fmt: skip
    assert out == "1.0 1000006.0 200000000 [0. 1. 0.] [1 4]\n"


def test_what_is_killed_goes_on_and_is_found_again(home, begun):
    home.close_gate()
    text = """
calls = pool(4, name="forty")
futures = [calls.submit(stamp, i) for i in range(40)]
print(futures[-1].job)
time.sleep(600)
"""
    process = begun(text)
    assert process.stdout.readline().strip().isdigit()
    home.until_running(4)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    home.open_gate()
    out = python(home, """
futures = pergpu.attach("forty")
print([future.result() for future in futures], {future.outcome["state"] for future in futures})
print([future.result() for future in pergpu.attach("forty")] == [i * i for i in range(40)])
""")  # fmt: skip
    assert out == f"{[i * i for i in range(40)]} {{'done'}}\nTrue\n"
    assert sorted(home.stamps.of("start")) == [*range(40)], "each once"


@pytest.mark.parametrize("reuse", [False, True])
def test_ctrl_c_ends_the_waiting_and_not_the_calls(home, begun, reuse):
    home.close_gate()
    process = begun(f"""
with pool(1, name="c", reuse={reuse}) as calls:
    futures = [calls.submit(stamp, i) for i in range(3)]
    print(futures[2].result())
""")
    home.until_running(1)
    process.send_signal(signal.SIGINT)
    told = process.stdout.read()
    assert process.wait(timeout=harness.DEADLINE) == -signal.SIGINT
    assert "pergpu: 3 calls are still running or queued; pergpu.attach('c') returns" in told and told.endswith("KeyboardInterrupt\n"), told
    home.open_gate()
    assert python(home, 'print([future.result() for future in pergpu.attach("c")])\n') == "[0, 1, 4]\n"
    assert home.stamps.of("start") == [0, 1, 2]


def test_calls_go_on_without_a_coordinator_for_a_while(home, begun):
    home.close_gate()
    process = begun("""
with pool(2) as calls:
    print(sum(calls.map(stamp, range(6))))
""")
    home.until_running(2)
    home.kill_coordinator()
    home.open_gate()
    assert rest_of(process) == "55\n"
    assert sorted(home.stamps.of("start")) == [*range(6)]


def test_cancel_takes_back_what_has_not_started(home, begun):
    home.close_gate()
    process = begun("""
with pool(1, name="c") as calls:
    futures = [calls.submit(stamp, i) for i in range(4)]
    while not futures[0].running():
        time.sleep(0.01)
    print(futures[0].cancel(), futures[1].cancel(), futures[1].cancelled(), futures[3].cancel(), flush=True)
    done = concurrent.futures.wait(futures, return_when="FIRST_COMPLETED").done
    print(len(done) >= 1, futures[1] in done or futures[3] in done)
    print(futures[2].result(), [future.cancelled() for future in futures])
    print([future.outcome and future.outcome["state"] for future in futures])
""")
    assert process.stdout.readline() == "False True True True\n"
    home.open_gate()
    *rest, states = rest_of(process).splitlines()
    assert rest == ["True True", "4 [False, True, False, True]"]
    # Nothing may have been told of a job before it was taken back; that it is queued is not said afterwards.
    assert re.fullmatch(r"\['done', ('cancelled'|None), 'done', ('cancelled'|None)\]", states), states
    assert sorted(home.states("c").values()) == ["cancelled", "cancelled", "done", "done"]
    assert home.stamps.of("start") == [0, 2]


def test_what_others_cancel_is_cancelled_here(home, begun):
    home.close_gate()
    process = begun("""
with pool(1, name="c") as calls:
    futures = [calls.submit(stamp, i) for i in range(2)]
    print([future.job for future in futures])
    print(futures[1].cancelled() or type(futures[1].exception()).__name__ if not concurrent.futures.wait(futures[1:])[1] else "")
    print(type(futures[0].exception()).__name__, futures[0].exception().state)
""")
    running, queued = json.loads(process.stdout.readline())
    home.until_running(1)
    home.run("cancel", queued)
    assert process.stdout.readline() == "True\n"
    home.run("cancel", running)
    assert rest_of(process) == "JobFailed cancelled\n"


def test_map_is_that_of_the_standard_library(home):
    out = python(home, """
def f(x, y):
    return x * y, os.environ["PERGPU_JOB"]
with pool(2, name="m") as calls:
    print([x for x, _ in calls.map(f, range(4), range(1, 5))])
    chunked = list(calls.map(f, range(7), range(7), chunksize=3))
    print([x for x, _ in chunked], len({job for _, job in chunked}))
    ahead = calls.map(f, range(10**9), range(10**9), buffersize=2)
    print([next(ahead)[0] for _ in range(3)])
    ahead.close()
    for bad in (dict(chunksize=0), dict(buffersize=0), dict(buffersize=1.5)):
        try:
            calls.map(f, [1], [2], **bad)
        except (TypeError, ValueError) as error:
            print(type(error).__name__, error)
""")  # fmt: skip
    assert out.splitlines() == [
        "[0, 2, 6, 12]",
        "[0, 1, 4, 9, 16, 25, 36] 3",
        "[0, 1, 4]",
        "ValueError chunksize must be >= 1.",
        "ValueError buffersize must be None or > 0",
        "TypeError buffersize must be an integer or None",
    ]


def test_an_initializer_comes_first_and_its_failure_is_everybodys(home):
    out = python(home, """
state = []
def begin(x):
    state.append(x)
def f():
    return state
def fail():
    raise OSError("no data")
with pool(initializer=begin, initargs=("begun",)) as calls:
    print(calls.submit(f).result(), calls.submit(f).result(), state)
with pool(1, name="bad", initializer=fail) as calls:
    futures = [calls.submit(f) for _ in range(5)]
    print({type(future.exception()).__name__ for future in futures}, futures[0].exception())
    try:
        calls.submit(f)
    except concurrent.futures.BrokenExecutor as error:
        print(error, "|", repr(error.__cause__))
""")  # fmt: skip
    lines = [line for line in out.splitlines() if line[:1] in ("[", "{", "t") and "Traceback" not in line]
    assert lines[0] == "['begun'] ['begun'] []"
    assert lines[1] == "{'BrokenExecutor'} the initializer has failed: OSError: no data"
    assert lines[2] == "the initializer has failed: OSError: no data | OSError('no data')"
    wait_until(lambda: set(home.states("bad").values()) <= {"failed", "cancelled"}, "nothing of it to be queued")


def test_mistakes_are_told_before_anything_starts(home):
    out = python(home, """
for bad in (dict(max_workers=0), dict(initializer=3), dict(timeot="3s"), dict(gpus="many"), dict(memory="2 apples")):
    try:
        pergpu.Executor(**bad)
    except Exception as error:
        print(type(error).__name__, str(error).replace("\\n", " "))
calls = pool(1)
calls.shutdown()
try:
    calls.submit(print)
except RuntimeError as error:
    print(error)
try:
    pergpu.attach("nothing")
except pergpu.CommandFailed as error:
    print("CommandFailed", error.code)
""")  # fmt: skip
    lines = out.splitlines()
    assert lines[0] == "ValueError max_workers must be greater than 0"
    assert lines[1] == "TypeError initializer must be a callable"
    assert lines[2] == "UnknownArgument Executor() got an unexpected keyword argument 'timeot'; did you mean 'timeout'?"
    assert "gpus" in lines[3] and "memory" in lines[4] and lines[5] == "cannot schedule new futures after shutdown"
    assert lines[6] == "CommandFailed 4"
    assert home.ps() == {}


def test_the_interpreter_waits_for_calls_and_calls_may_be_added_later(home):
    text = """
def f(i):
    time.sleep(0.2)
    return i
calls = pool(2, name="more")
futures = [calls.submit(f, i) for i in range(%d, %d)]
"""
    python(home, text % (0, 3))
    assert [*home.states("more").values()] == 3 * ["done"]
    python(home, text % (3, 5))
    assert [*home.states("more").values()] == 5 * ["done"]
    out = python(home, 'print([future.result() for future in pergpu.attach("more")], pergpu.attach("more")[4])\n')
    assert out.startswith("[0, 1, 2, 3, 4] <pergpu.Future f(i=4) job 5 finished>"), out


def test_clean_removes_calls_and_results(home):
    python(home, """
for options in (dict(name="cold"), dict(name="warm", reuse=True)):
    with pool(1, **options) as calls:
        calls.submit(abs, -1).result()
""")  # fmt: skip
    assert sorted(os.listdir(home.work + "/runs/cold")) == ["00", "_calls"]
    home.run("clean", "cold", "warm", "--results", "--yes")
    assert os.listdir(home.work + "/runs") == [] and home.ps() == {}


def test_asyncio_and_callbacks_get_results(home):
    out = python(home, """
import asyncio
def f(x):
    return x + 1
async def main(calls):
    print(await asyncio.get_running_loop().run_in_executor(calls, f, 1))
    print(await asyncio.gather(*(asyncio.wrap_future(calls.submit(f, i)) for i in range(3))))
with pool(2) as calls:
    asyncio.run(main(calls))
    seen = []
    future = calls.submit(f, 41)
    future.add_done_callback(lambda done: seen.append(done.result()))
    print(future.result(timeout=60))
    try:
        calls.submit(time.sleep, 5).result(timeout=0.01)
    except concurrent.futures.TimeoutError:
        print("not yet")
print(seen)
""")  # fmt: skip
    assert out.splitlines() == ["2", "[1, 2, 3]", "42", "not yet", "[42]"]


def test_a_call_is_tried_again_and_may_ask_for_it(home):
    out = python(home, """
def f():
    attempt = int(os.environ["PERGPU_ATTEMPT"])
    if attempt == 1:
        raise OSError("the first time")
    if attempt == 2:
        pergpu.requeue()
    return attempt
with pool(1, retries=1) as calls:
    print(calls.submit(f).result())
""")  # fmt: skip
    assert out == "3\n"


def test_results_of_gigabytes_are_not_in_memory_twice(home):
    pytest.importorskip("numpy")
    if not harness.LONG:
        pytest.skip("2 GB of disk; ./test --all")
    out = python(home, """
import numpy, resource
def f():
    return numpy.ones(2**29, numpy.float32)
with pool(1, timeout="300s") as calls:
    a = calls.submit(f).result()
    print(a.nbytes, a[-1], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2**20)
""")  # fmt: skip
    assert out == "2147483648 1.0 True\n"


def test_an_executor_that_nobody_holds_ends(home):
    out = python(home, """
import gc, threading, weakref
def threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("pergpu")]
calls = pool(2)
gone, future = weakref.ref(calls), calls.submit(pow, 2, 8)
results = calls.map(pow, range(3), range(3))
print(len(threads()) > 0)
del calls
print(gone(), future.result(), list(results))
while threads():
    time.sleep(0.01)
class Ring:
    pass
ring = Ring()
ring.ring, ring.calls = ring, pool(1)
future = ring.calls.submit(pow, 2, 3)
backend = ring.calls._calls
gone = weakref.ref(ring.calls)
del ring
with backend._lock:  # garbage is collected wherever somebody allocates
    gc.collect()
    print(gone())
print(future.result())
""")  # fmt: skip
    assert out == "True\nNone 256 [1, 1, 4]\nNone\n8\n"


def test_calls_end_where_no_thread_can_be_started(home):
    """From Python 3.12 on none can when the interpreter ends, which waits for calls at that time."""
    out = python(home, """
import atexit, threading
def no_more(thread):
    raise RuntimeError("can't create new thread at interpreter shutdown")
calls, others, unused = pool(1), pool(1), pool(1)
future = calls.submit(pow, 2, 8)
start, threading.Thread.start = threading.Thread.start, no_more
print(future.result())
for _ in range(2):
    try:
        others.submit(pow, 2, 8)
    except RuntimeError as error:
        print(error)
others.shutdown()
threading.Thread.start = start
def last():
    try:
        unused.submit(pow, 2, 8)
    except RuntimeError as error:
        print(error)
atexit.unregister(sys.modules["pergpu._executor"]._wait_for_all)
atexit.register(last)
atexit.register(sys.modules["pergpu._executor"]._wait_for_all)
""")  # fmt: skip
    no_thread = "can't create new thread at interpreter shutdown\n"
    assert out == f"256\n{no_thread}{no_thread}cannot schedule new futures after interpreter shutdown\n"


def test_what_cannot_be_read_is_no_exception_of_the_call(home):
    out = python(home, """
import gc, pickle, weakref
class Only:
    \"\"\"Can be read in the process `here` only.\"\"\"
    def __init__(self, here):
        self.here = here
    def __reduce__(self):
        return read, (self.here,)
def read(here):
    if os.getpid() == here:
        raise KeyboardInterrupt if os.path.exists("interrupt") else LookupError("not here")
    if here == 0:
        raise LookupError("not there")
def tell(error):
    assert isinstance(error, pergpu.JobFailed) and isinstance(error, concurrent.futures.process.BrokenProcessPool)
    print(error.state, "|", str(error).partition(": ")[2].partition("\\\\n")[0], "|", repr(error.__cause__))
gc.disable()
with pool(1) as calls:
    tell(calls.submit(id, Only(0)).exception())
    future = calls.submit(Only, os.getpid())
    open("interrupt", "w").close()
    try:
        future.result()
    except KeyboardInterrupt:
        os.unlink("interrupt")
    tell(future.exception())
    gone = weakref.ref(future)
    try:
        future.result()
    except pergpu.JobFailed:
        del future
    print(gone(), calls.submit(pow, 2, 8).result())
calls = pool(1)
failed = calls.submit(id, os.scandir())
gone = weakref.ref(calls)
del calls
print(type(failed.exception()).__name__, gone())
""")  # fmt: skip
    there, here, *rest = out.splitlines()
    assert there.startswith("failed | failed: its process cannot read the call: LookupError: not there"), out
    assert there.endswith("| LookupError('not there')"), out
    assert here == "done | done: its result cannot be read here: LookupError: not here | LookupError('not here')", out
    assert rest == ["None 256", "PicklingError None"], out
