"""The checkpoint signal: noted or turned into a call, and exit code 75."""
import array
import fcntl
import os
import signal
import subprocess
import sys
import termios
import time

import pytest


def program(text, name="USR1"):
    env = {**os.environ, "PERGPU_SIGNAL": name}
    env.pop("PYTHONUNBUFFERED", None)  # as most programs run: with buffers, which have locks
    if not name:
        del env["PERGPU_SIGNAL"]
    head = "import os, pergpu, signal, sys, threading, time\n"
    return subprocess.Popen([sys.executable, "-c", head + text], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)  # fmt: skip


def waiting(pipe):
    """Bytes written to a pipe and not yet read."""
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def wait_until(happened):
    end = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


def ended(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


ASKS = """
pergpu.checkpoint_requested()
print("begun", flush=True)
while not pergpu.checkpoint_requested():
    time.sleep(0.01)
print("saved")
pergpu.requeue()
"""


@pytest.mark.parametrize("name", ["USR1", "TERM", "HUP"])
def test_a_loop_that_asks_saves_and_is_started_again(name):
    process = program(ASKS, name)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(getattr(signal, "SIG" + name))
    assert ended(process) == (75, "saved\n", "")


def test_a_function_is_called_when_the_signal_comes():
    process = program("""
@pergpu.on_checkpoint
def save():
    print("saved", flush=True)
assert save.__name__ == "save"
print("begun", flush=True)
while True:
    time.sleep(60)
""")  # fmt: skip
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGUSR1)
    assert ended(process) == (75, "saved\n", "")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_function_may_print_although_the_signal_interrupted_a_print(stream):
    process = program(f"""
@pergpu.on_checkpoint
def save():
    print("saved", file=sys.{stream}, flush=True)
while True:
    print("x" * 999, file=sys.{stream}, flush=True)
""")  # fmt: skip
    pipe = getattr(process, stream)
    wait_until(lambda: waiting(pipe) > fcntl.fcntl(pipe, 1032) - 4096)  # F_GETPIPE_SZ: blocked in a write
    process.send_signal(signal.SIGUSR1)
    code, out, err = ended(process)
    written = {"stdout": out, "stderr": err}[stream]
    assert code == 75 and set(written[: -len("saved\n")]) == {"x", "\n"} and written.endswith("x\nsaved\n")


def test_an_exception_of_a_function_leaves_the_interrupted_call():
    process = program("""
class Saved(Exception): pass
@pergpu.on_checkpoint
def save():
    raise Saved
try:
    print("begun", flush=True)
    time.sleep(60)
except Saved:
    print("caught", sys.gettrace(), flush=True)
""")  # fmt: skip
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGUSR1)
    assert ended(process) == (0, "caught None\n", "")


def test_a_function_that_fails_is_told_and_is_no_requeue():
    process = program("""
@pergpu.on_checkpoint
def save():
    raise OSError("disk full")
print("begun", flush=True)
while True:
    time.sleep(60)
""")  # fmt: skip
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGUSR1)
    code, _, err = ended(process)
    assert code == 1 and "OSError: disk full" in err


def test_a_forked_child_does_not_save(tmp_path):
    stop, stopped = str(tmp_path / "stop"), str(tmp_path / "stopped")
    process = program(f"""
@pergpu.on_checkpoint
def save():
    print("saved by", os.getpid() == owner, flush=True)
owner = os.getpid()
child = os.fork()
if child == 0:
    while not os.path.exists({stop!r}):
        time.sleep(0.01)
    open({stopped!r}, "w").close()
    os._exit(0)
print(child, flush=True)
os.waitpid(child, 0)
while True:
    time.sleep(60)
""")  # fmt: skip
    os.kill(int(process.stdout.readline()), signal.SIGUSR1)
    open(stop, "w").close()
    end = time.monotonic() + 60
    while not os.path.exists(stopped):
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGUSR1)
    code, out, _ = ended(process)
    assert (code, out) == (75, "saved by True\n")


def test_a_second_signal_does_not_interrupt_the_saving():
    process = program("""
@pergpu.on_checkpoint
def first():
    print("begin", flush=True)
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(0.1)
    print("end", flush=True)
@pergpu.on_checkpoint
def second():
    print("second", flush=True)
os.kill(os.getpid(), signal.SIGUSR1)
time.sleep(60)
""")  # fmt: skip
    assert ended(process) == (75, "begin\nend\nsecond\n", "")


@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_do_not_save(way, tmp_path):
    path = tmp_path / "main.py"
    path.write_text(f"""
import multiprocessing, os, pergpu, signal, time
@pergpu.on_checkpoint
def save():
    print("saved by", multiprocessing.current_process().name, flush=True)
def work(ready, stop):
    ready.set()
    while not stop.wait(0.01):
        pass
if __name__ == "__main__":
    context = multiprocessing.get_context({way!r})
    ready, stop = context.Event(), context.Event()
    child = context.Process(target=work, args=(ready, stop))
    child.start()
    ready.wait()
    os.kill(child.pid, signal.SIGUSR1)
    stop.set()
    child.join()
    print(child.exitcode, flush=True)
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(60)
""")  # fmt: skip
    done = subprocess.run([sys.executable, str(path)], env={**os.environ, "PERGPU_SIGNAL": "USR1"}, capture_output=True,
                          text=True, timeout=100)  # fmt: skip
    assert (done.returncode, done.stdout) == (75, "0\nsaved by MainProcess\n"), done.stderr


def test_without_a_signal_of_the_step_nothing_is_handled():
    process = program("print(pergpu.checkpoint_requested(), signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL)", "")
    assert ended(process) == (0, "False True\n", "")


def test_a_first_call_in_another_thread_says_what_to_do():
    process = program("""
def ask():
    try:
        pergpu.checkpoint_requested()
    except RuntimeError as error:
        print(error)
thread = threading.Thread(target=ask)
thread.start()
thread.join()
pergpu.checkpoint_requested()
thread = threading.Thread(target=lambda: print(pergpu.checkpoint_requested()))
thread.start()
thread.join()
""")  # fmt: skip
    code, out, err = ended(process)
    assert code == 0 and "main thread" in out and out.endswith("False\n"), err


SWALLOWED = {
    "except": """
try: work()
except: pass
""",
    "finally": """
def batch():
    try: work()
    finally: return 1
batch()
""",
    "del": """
class Loader:
    def __del__(self): work()
Loader()
""",
    "weakref": """
import weakref
class Data: pass
data = Data()
watch = weakref.ref(data, lambda _: work())
del data
""",
    "suppress": """
import contextlib
with contextlib.suppress(BaseException): work()
""",
    "another": """
try: work()
finally: raise OSError("in the finally")
""",
    "exit 0": """
try: work()
finally: sys.exit(0)
""",
    "handled later": """
def batch():
    try: work()
    except BaseException as error: raise OSError("diverged") from error
try: batch()
except OSError: pass
""",
}


@pytest.mark.parametrize("way", [*SWALLOWED])
def test_what_was_saved_ends_the_process_although_the_exit_is_swallowed(way):
    process = program(f"""
import pergpu._ending
pergpu._ending.LIMIT_S = pergpu._ending.AFTER_SIGNAL_S = 50
@pergpu.on_checkpoint
def save():
    print("saved")
def work():
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(50)
{SWALLOWED[way]}
print("goes on")
""")  # fmt: skip
    code, out, err = ended(process)
    assert (code, out) == (75, "saved\n"), err
    assert way in ("another", "exit 0") or "swallowed in <string>:" in err


def test_an_exit_that_is_kept_ends_the_process_after_a_while():
    process = program("""
import pergpu._ending
pergpu._ending.LIMIT_S = 0.2
pergpu.checkpoint_requested()
try:
    pergpu.requeue()
except SystemExit as error:
    kept = error
print("goes on")
time.sleep(60)
""")
    code, out, err = ended(process)
    assert (code, out) == (75, "goes on\n") and "has not ended 0.2 s after" in err


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "sys.exit('text')", "raise OSError"])
@pytest.mark.parametrize("kept", ["kept.append(error)", "itself = error"])
def test_a_program_that_keeps_the_exit_and_ends_by_itself_is_started_again(kept, end):
    process = program(f"""
import atexit
kept = []
def work():
    try:
        pergpu.requeue()
    except SystemExit as error:
        {kept}
        {end}
pergpu.checkpoint_requested()
atexit.register(print, "at the end")
work()
""")  # fmt: skip
    assert ended(process)[:2] == (75, "at the end\n")


@pytest.mark.parametrize("way", ["kept", "thread", "atexit", "polled"])
def test_after_the_signal_the_process_ends_within_a_short_lead(way):
    process = program(f"""
import atexit
if {way!r} == "atexit":
    atexit.register(time.sleep, 60)
if {way!r} == "polled":
    pergpu.checkpoint_requested()
else:
    pergpu.on_checkpoint(lambda: print("saved", flush=True))
if {way!r} == "thread":
    threading.Thread(target=time.sleep, args=(60,)).start()
try:
    os.kill(os.getpid(), signal.SIGUSR1)
    if pergpu.checkpoint_requested():
        print("saved", flush=True)
        pergpu.requeue()
    time.sleep(60)
except SystemExit as error:
    if {way!r} in ("thread", "atexit"):
        raise
    kept = error
time.sleep(60)
""")
    process.stdout.readline()
    begin = time.monotonic()
    code, _, err = ended(process)
    assert code == 75 and "has not ended 3 s after" in err and time.monotonic() - begin < 5


@pytest.mark.parametrize("job", [True, False])
def test_finally_blocks_and_functions_of_atexit_run_before_an_end(job):
    process = program("""
import atexit
atexit.register(print, "atexit")
with open(os.devnull):
    try:
        pergpu.requeue()
    except SystemExit:
        print("cleans up")
        raise
    finally:
        print("finally")
""", "USR1" if job else "")
    assert ended(process) == (75, "cleans up\nfinally\natexit\n", "")


def test_outside_of_a_job_a_requeue_is_a_plain_exit():
    process = program("""
try:
    pergpu.requeue()
except SystemExit as error:
    print(error.code)
threading.Thread(target=pergpu.requeue).start()
""", "")
    assert ended(process) == (0, "75\n", "")
