"""`pergpu.Executor` and what goes on beside it: callbacks, forks, interrupts, many calls."""
import harness
from test_executor import python


def test_map_takes_back_the_rest_at_once(home):
    out = python(home, """
def f(i):
    while not os.path.exists("go"):
        time.sleep(0.01)
    raise ValueError
calls = pool(1, name="many")
results = calls.map(f, range(500))
while len(calls._calls._jobs) < 500:
    time.sleep(0.01)
began = time.monotonic()
open("go", "w").close()
try:
    next(results)
except ValueError:
    print(time.monotonic() - began < 4)
calls.shutdown()
""")  # fmt: skip
    assert out == "True\n"
    assert [*home.states("many").values()].count("cancelled") > 480


def test_callbacks_may_use_the_pool(home):
    out = python(home, """
seen = []
calls, others = pool(2), pool(2)
def again(done):
    if len(seen) < 3:
        seen.append(done.result())
        calls.submit(pow, 2, len(seen)).add_done_callback(again)
    else:
        with calls:  # waits for the others, which this thread is to tell of their end
            pass
        calls.shutdown(cancel_futures=True)
        seen.append("shut down")
calls.submit(pow, 2, 0).add_done_callback(again)
while len(seen) < 4:
    time.sleep(0.01)
calls.shutdown()
print(seen)
def leave(done):
    sys.exit()
futures = [others.submit(time.sleep, i / 2) for i in range(4)]
futures[0].add_done_callback(leave)
others.shutdown()
print([type(future.exception()).__name__ for future in futures])
""")  # fmt: skip
    first, second = (line for line in out.splitlines() if line[:1] == "[")
    assert first == "[1, 2, 4, 'shut down']"
    assert second == "['NoneType', 'BrokenExecutor', 'BrokenExecutor', 'BrokenExecutor']"


def test_a_forked_process_leaves_the_pool_alone(home):
    out = python(home, """
import threading, warnings
calls = pool(1)
future = calls.submit(time.sleep, 1)
while not future.running():
    time.sleep(0.01)
held = threading.Event()
def hold():
    with calls._calls._lock:
        held.set()
        time.sleep(0.5)
threading.Thread(target=hold).start()
held.wait()
warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on: of threads and fork()
child = os.fork()
if child == 0:
    try:
        calls.submit(len, "")
    except RuntimeError as error:
        print(error, flush=True)
    calls.kill_workers()
    calls.shutdown()
    del calls
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), future.done())
print(future.result(), calls.submit(pow, 2, 8).result())
""")  # fmt: skip
    assert out.splitlines() == [
        "this executor belongs to the parent of this forked process: create another one",
        "3 False",
        "None 256",
    ]


def test_an_interrupt_does_not_stop_what_is_being_handed_over(home):
    """Ctrl-C reaches all processes of the terminal's group, those that a thread has just started, too."""
    slow = home.script("slow", f"""#!/bin/sh
[ "$1 $3" = "submit --add" ] && touch begun && sleep 1
exec {harness.PERGPU} "$@"
""")  # fmt: skip
    out = python(home, f"""
import signal
os.setpgid(0, 0)
os.environ["PERGPU_BIN"] = {slow!r}
calls = pool(1)
future = calls.submit(pow, 2, 8)
while not os.path.exists("begun"):
    time.sleep(0.01)
try:
    os.killpg(0, signal.SIGINT)
    calls.shutdown()
except KeyboardInterrupt:
    print("interrupted")
print(future.result())
""")  # fmt: skip
    assert out == "interrupted\n256\n"


INTERRUPT = """
def interrupted(at, submit):
    # Ctrl-C at one of the places where Python handles signals: functions of Python begin, those of C return.
    def hook(frame, event, _):
        nonlocal at
        at -= event in ("call", "c_return")
        if at == 0:
            raise KeyboardInterrupt
    sys.setprofile(hook)
    try:
        return [submit()]
    except KeyboardInterrupt:
        return []
    finally:
        sys.setprofile(None)
"""


def test_an_interrupted_submit_to_workers_holds_nothing_up(home):
    """Each time they wait for a call; what is submitted next goes to them at once."""
    out = python(home, INTERRUPT + """
with pool(1, reuse=True, timeout=None) as calls:
    calls.submit(abs, 0).result()
    at, came = 0, []
    while not came:
        at += 1
        came = interrupted(at, lambda: calls.submit(abs, -at))
        assert calls.submit(divmod, at, 1).result(20) == (at, 0)
    print(at > 50, came[0].result(20) == at)
    began = time.monotonic()
print(time.monotonic() - began < 20)
""")  # fmt: skip
    assert out == "True True\nTrue\n"


def test_an_interrupted_submit_of_calls_holds_nothing_up(home):
    """Also the last one, which no other submit follows; the first one may cost the executor, in words."""
    out = python(home, INTERRUPT + """
for reuse in (False, True):
    first = []
    for at in (*range(20, 60, 3), *range(60, 260, 40)):
        calls = pool(2, reuse=reuse, timeout=None, name=f"first-{reuse}-{at}")
        interrupted(at, lambda: calls.submit(abs, -at))
        try:
            first.append((calls.submit(abs, -at), at, calls))
        except concurrent.futures.BrokenExecutor as error:
            assert "was interrupted while it was submitted" in str(error)
        calls.shutdown(wait=False)
    print([(at, future.result(30)) for future, at, _ in first if future.result(30) != at])
with pool(2) as calls:
    futures = [calls.submit(abs, 0)]
    for at in range(1, 400, 25):
        futures += interrupted(at, lambda: calls.submit(abs, -at))
    print(all(future.result(30) >= 0 for future in futures))
""")  # fmt: skip
    assert out == "[]\n[]\nTrue\n"
