"""Failures of calls come back as exceptions, and no call is left pending."""
import sys

import pytest

from harness import wait_until
from test_executor import begun, python, rest_of  # noqa: F401 (begun is a fixture)
from test_gpu_health import world as breakable  # noqa: F401 (fixture)

SAME_MISTAKE = """
def train(lr):
    return {"lr": lr}["learning_rate"]
"""


@pytest.mark.parametrize("reuse", [False, True])
def test_a_mistake_of_all_calls_ends_the_program(home, reuse):
    told = python(home, SAME_MISTAKE + f"""
try:
    with pool(2, reuse={reuse}) as executor:
        futures = [executor.submit(train, lr) for lr in range(8)]
        results = [future.result() for future in futures]
except KeyError as error:
    print(error, {{type(future.exception()).__name__ for future in futures}})
""")  # fmt: skip
    assert told == "'learning_rate' {'KeyError'}\n"


def test_after_an_exception_in_the_block_nobody_waits_for_what_is_held(home, begun):  # noqa: F811
    process = begun("""
try:
    with pool(1, name="calls") as executor:
        futures = [executor.submit(stamp, i) for i in range(3)]
        print("begun", flush=True)
        while not os.path.exists("raise"):
            time.sleep(0.01)
        raise ZeroDivisionError
except ZeroDivisionError:
    print(futures[0].result(), [future.cancelled() for future in futures[1:]])
""")
    home.close_gate()
    assert process.stdout.readline() == "begun\n"
    wait_until(lambda: len(home.ps()) == 3, "the calls")
    home.run("hold", "calls")
    home.file("raise", "")
    home.open_gate()
    assert rest_of(process).splitlines()[-1] == "0 [True, True]"


@pytest.mark.parametrize("reuse", [False, True])
def test_a_call_that_asks_for_another_attempt_gets_it(home, reuse):
    told = python(home, f"""
def again(i):
    if not os.path.exists(f"seen-{{i}}"):
        open(f"seen-{{i}}", "w").close()
        pergpu.requeue()
    return i, os.environ["PERGPU_ATTEMPT"]
with pool(1, reuse={reuse}) as executor:
    futures = [executor.submit(again, i) for i in range(3)]
    print([future.result()[0] for future in futures], executor.submit(abs, -1).result())
    print(executor.submit(os._exit, 3).exception() is not None)
""")  # fmt: skip
    assert told == "[0, 1, 2] 1\nTrue\n"


@pytest.mark.parametrize("reuse", [False, True])
def test_a_call_that_keeps_the_exit_of_its_requeue_gets_another_attempt_all_the_same(home, reuse):
    told = python(home, f"""
import contextlib
kept = []
class Failed(Exception):
    def __init__(self, a, b):
        super().__init__(a)
def again(how):
    if os.path.exists("seen " + how):
        return how
    open("seen " + how, "w").close()
    if how == "stack":
        with contextlib.ExitStack() as stack:
            stack.callback(lambda: 1 / 0)
            pergpu.requeue()
    try:
        pergpu.requeue()
    except BaseException as error:
        kept.append(error) if how != "itself" else None
        itself = error
        if how == "raise":
            raise Failed(1, 2) from None
        if how == "exit":
            sys.exit(0)
        return "WENT ON"
with pool(5, reuse={reuse}) as executor:
    print([future.result() for future in [executor.submit(again, how) for how in ("stack", "list", "itself", "raise", "exit")]])
""")  # fmt: skip
    assert told == "['stack', 'list', 'itself', 'raise', 'exit']\n"


@pytest.mark.parametrize("reuse", [False, True])
def test_a_call_whose_gpu_breaks_runs_again_on_another_one(home, breakable, reuse):  # noqa: F811
    breakable.show(2)
    breakable.join(home)
    home.env["XIDS"] = breakable.root + "/xids"
    told = python(home, f"""
def train():
    gpu = os.environ["CUDA_VISIBLE_DEVICES"]
    open(os.environ["CLAIMS"] + f"/{{gpu}}.{{os.getpid()}}", "w").close()
    if not os.path.exists("broken"):
        open("broken", "w").close()
        with open(os.environ["XIDS"] + "/" + gpu, "a") as file:
            file.write("79\\n")
        os._exit(1)
    return os.path.exists("broken")
with pergpu.Executor(1, gpus=1, timeout="60s", reuse={reuse}) as executor:
    print(executor.submit(train).result())
""")  # fmt: skip
    assert told == "True\n"


def test_the_constructor_says_what_is_wrong_in_words_of_python(home):
    told = python(home, """
for bad in (dict(mem_gb=3), dict(timeot="3s"), dict(command="x"), dict(memory="2 apples"), dict(retries=-1), dict(lanes=0),
            dict(lanes="2"), dict(name="a/b"), dict(reuse=True, signal="USR1@1s"), dict(gpus=1, lanes=None)):
    try:
        pergpu.Executor(**{"gpus": 0, "lanes": 1, **bad})
    except (TypeError, ValueError) as error:
        kind = "TypeError" if isinstance(error, TypeError) else "ValueError"
        print(kind, str(error).splitlines()[0])
""")  # fmt: skip
    lines = told.splitlines()
    assert lines[:3] == [
        "TypeError Executor() got an unexpected keyword argument 'mem_gb'; did you mean 'memory'?",
        "TypeError Executor() got an unexpected keyword argument 'timeot'; did you mean 'timeout'?",
        "TypeError Executor() got an unexpected keyword argument 'command'",
    ]
    words = ["memory", "retries", "lanes is 0", "lanes is '2'", "name is 'a/b'", "signal", "this machine has no GPU"]
    assert [line for line, word in zip(lines[3:], words) if word not in line or not line.startswith("ValueError")] == []
    assert len(lines) == 3 + len(words) and home.ps() == {}


def test_an_idle_worker_gives_its_lane_back(home):
    told = python(home, """
def shorten():
    import _worker
    _worker.IDLE_LIMIT = 0.1
with pool(1, reuse=True, initializer=shorten) as executor:
    first = executor.submit(os.getpid).result()
    end = time.monotonic() + 60
    while executor.submit(os.getpid).result() == first:
        assert time.monotonic() < end
        time.sleep(0.5)
    print("another worker")
""")  # fmt: skip
    assert told == "another worker\n" and set(home.states().values()) == {"done"}


@pytest.mark.parametrize("reuse", [False, True])
def test_what_the_machine_never_has_is_told_by_the_constructor(home, breakable, reuse):  # noqa: F811
    breakable.show(2)
    breakable.join(home)
    home.file("file", "")
    told = python(home, f"""
for much in (dict(cpus=100_000), dict(memory="1000 TB"), dict(gpus=3), dict(gpus=1, gpu_memory="900GiB"), dict(gpus=1, gpu="*NONE*"),
             dict(out="/proc/nothing"), dict(out="file")):
    try:
        pergpu.Executor(1, **{{"gpus": 0, "reuse": {reuse}, **much}})
        print("NOT REFUSED", much)
    except ValueError as error:
        print(str(error).replace(os.getcwd(), ""))
with pool(1, reuse={reuse}, name="few", cpus=1, memory="1GiB", out="new") as executor:
    print(executor.submit(abs, -1).result(), pool(1, reuse={reuse}, name="few", cpus=1, memory="1GiB", out="new"))
""")  # fmt: skip
    lines = told.splitlines()
    who = "a worker" if reuse else "a call"
    words = [f"{who} asks for 100000 CPUs, but this", f"{who} asks for 909.5 TiB of memory, but this", f"{who} asks for 3 GPUs, but", f"{who} asks for 1 GPU ", f"{who} asks for 1 GPU *NONE*",
             "can't write results to /proc/nothing (", "can't write results to /file ("]  # fmt: skip
    assert [(line, word) for line, word in zip(lines, words) if not line.startswith(word)] == [], told
    assert "--" not in told and "step" not in told and lines[len(words) :] == ["1 <pergpu.Executor few>"]
    assert len(home.ps()) == 1, "what was only looked at is no job"


def test_messages_are_in_the_words_of_those_who_wrote_arguments(home):
    told = python(home, """
import datetime
for wrong in (dict(timeout=3600), dict(memory=1 << 30), dict(timeout="soon"), dict(retries="x"), dict(env=["A"]), dict(priority="high"), dict(memory=object()),
              dict(gpu="*H100*"), dict(uses="db"), dict(sharing="mps"), dict(grow={"memory": 2}, retries=1), dict(max_parallel="x"), dict(needs="a"),
              dict(failures=[{"match": "a", "class": "b"}]), dict(name="-x"), dict(name="@"), dict(gpus=True), dict(cpus=False)):
    try:
        pool(1, **wrong)
        print("NOT REFUSED", wrong)
    except (TypeError, ValueError) as error:
        print(error)
for workers in ("4", 1.5, True):
    try:
        pergpu.Executor(workers, gpus=0)
    except TypeError as error:
        print(error)
with pool(1, timeout=datetime.timedelta(minutes=1), name="two words") as executor:
    print(executor.submit(os._exit, 3).exception())
try:
    pergpu.attach("nothing")
except RuntimeError as error:
    print(error)
""")  # fmt: skip
    lines = told.splitlines()
    assert lines[0] == 'timeout is 3600; expected a duration with its unit, such as "3600s" or "12h", or a timedelta'
    assert lines[1] == 'memory is 1073741824; expected a size with its unit, such as "64GiB" or "500MB"'
    assert 'a dict like {"max": 2' in lines[3] and lines[4] == "`env` must be a dict, not a list"
    assert "call two words/00, _exit(status=3) (job 1): failed: exit code 3" in told and "max_workers is '4'; expected a whole number" in told
    assert 'or "auto", not True\n' in told and "`cpus` must be a whole number, not False\n" in told
    assert "no calls are named 'nothing'; there " in told
    for word in ("<stdin>", "sweep is", "[steps", "--add", "--lanes", "not the text", "not the number", " table", "[limits]", "NOT REFUSED", "pergpu:", " = "):
        assert word not in told, (word, told)


def test_a_sweep_of_others_is_no_place_for_calls(home):
    """It has other steps, and nothing lies beside its calls."""
    home.submit('name = "train"\n[steps.main]\ncommand = ["true"]\n', "--lanes", "1")
    home.wait()
    told = python(home, """
error = pool(1, name="train").submit(abs, -1).exception()
print(type(error).__name__, error)
""")  # fmt: skip
    assert told == "BrokenExecutor calls named 'train' already exist, from an executor with another `reuse`; choose another name\n"


def test_the_constructor_names_the_argument_that_is_wrong(home):
    told = python(home, """
import datetime, multiprocessing
for wrong in (dict(initargs=3), dict(out=3), dict(out=b"runs"), dict(reuse="yes"), dict(resume=None), dict(env_pass=3), dict(env_pass=[3]), dict(env=3),
              dict(timeout=-1), dict(timeout=float("nan")), dict(timeout=datetime.timedelta(seconds=-1)), dict(gpu=1), dict(max_worker=3), dict(initarg=()),
              dict(workdir="x"), dict(slurm={"a": 1}), dict(retries={"max": 1, "onn": ["exit"]}), dict(mp_context=multiprocessing.get_context("fork")),
              dict(max_tasks_per_child=1), dict(thread_name_prefix=""), dict(name="-x"), dict(name="@"), dict(name="12"), dict(slurm=3)):
    try:
        pergpu.Executor(**{"gpus": 0, "lanes": 1, **wrong})
        print("NOT REFUSED", wrong)
    except (TypeError, ValueError) as error:
        print("TypeError" if isinstance(error, TypeError) else "ValueError", error)
with pergpu.Executor(gpus=0, lanes=1, mp_context=None, max_tasks_per_child=None, initargs=[], reuse=0) as executor:
    print(executor.submit(abs, -1).result())
""")  # fmt: skip
    unexpected = "TypeError Executor() got an unexpected keyword argument"
    unsupported = "TypeError Executor() doesn't support"
    duration = 'expected a duration with its unit, such as "90s" or "12h", or a timedelta'
    assert told.splitlines() == [
        "TypeError initargs is 3; expected a tuple of the initializer's arguments, such as (3,)",
        "TypeError out is 3; expected the path of a folder",
        "TypeError out is b'runs'; expected the path of a folder",
        "TypeError reuse is 'yes'; expected True or False",
        "TypeError resume is None; expected True or False",
        "ValueError `env_pass` must be a list of str, not 3",
        "ValueError each of `env_pass` must be a str (in quotes), not 3",
        "ValueError `env` must be a dict, not 3",
        f"ValueError timeout is -1; {duration}",
        f"ValueError timeout is nan; {duration}",
        f"ValueError timeout is datetime.timedelta(days=-1, seconds=86399); {duration}",
        'ValueError gpu is 1; expected the name or a pattern of a GPU model, such as "*H100*"; did you mean gpus=1?',
        f"{unexpected} 'max_worker'; did you mean 'max_workers'?",
        f"{unexpected} 'initarg'; did you mean 'initargs'?",
        f"{unexpected} 'workdir'",
        "ValueError slurm has no key 'a'",
        "ValueError retries has no key 'onn'; did you mean 'on'?",
        f"{unsupported} 'mp_context': pergpu starts the processes of calls, not multiprocessing; remove the argument",
        f"{unsupported} 'max_tasks_per_child': each call runs in a new process unless reuse=True; remove the argument",
        f"{unsupported} 'thread_name_prefix': calls run in processes, not in threads; remove the argument (name=... names the executor)",
        "ValueError name can't be \"-x\": it begins with -",
        "ValueError name can't be \"@\": it begins with @",
        "ValueError name can't be \"12\": a number is the id of a job",
        'ValueError `slurm` must be a dict like {"partition": "gpu", "time": "12h"}, not 3',
        "1",
    ]


@pytest.mark.parametrize("reuse", [False, True])
def test_any_exception_comes_back_as_what_it_is(home, reuse):
    told = python(home, f"""
import dataclasses, errno, threading
class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(f"{{a}}{{b}}")
class Mute(Exception):
    def __str__(self):
        return self.missing
    __repr__ = __str__
def surrogates():
    raise ValueError("cannot read " + os.fsdecode(b"caf\\xe9.png"))
def mute():
    raise Mute(1)
def attribute():
    error = ValueError("diverged")
    error.lock, error.step = threading.Lock(), 7
    raise error
def of_file():
    error = FileNotFoundError(errno.ENOENT, "gone", "data.bin")
    error.lock = threading.Lock()
    raise error
@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    step: int
def frozen():
    raise Frozen(7)
class New(ValueError):
    def __new__(cls, a, b):
        made = super().__new__(cls, a)
        made.b = b
        return made
    def __init__(self, a, b):
        super().__init__(a)
def of_new():
    raise New(1, 2)
with pool(1, reuse={reuse}) as calls:
    for call in (surrogates, mute, attribute, of_file, frozen, of_new):
        error = calls.submit(call).exception()
        print(type(error).__name__, ascii(error) if call is not mute else error.args, vars(error), getattr(error, "filename", None))
    print(calls.submit(os.getpid).result() > 0)
""")  # fmt: skip
    assert told.splitlines() == [
        "ValueError ValueError('cannot read caf\\udce9.png') {} None",
        "Mute (1,) {} None",
        "ValueError ValueError('diverged') {'step': 7} None",
        "FileNotFoundError FileNotFoundError(2, 'gone') {} data.bin",
        "Frozen Frozen(step=7) {'step': 7} None",
        "New New(1) {'b': 2} None",
        "True",
    ]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="ExceptionGroup is new in Python 3.11")
@pytest.mark.parametrize("reuse", [False, True])
def test_a_group_comes_back_with_its_members(home, reuse):
    told = python(home, f"""
import threading
class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(f"{{a}}{{b}}")
class Group(ExceptionGroup):
    def __new__(cls, members):
        return super().__new__(cls, "of mine", members)
def group(kind):
    members = [Odd(1, 2), KeyError("k"), ValueError(threading.Lock()), ExceptionGroup("inner", [Odd(3, 4)])]
    raise Group(members) if kind else ExceptionGroup("outer", members)
with pool(1, reuse={reuse}) as calls:
    for kind in (0, 1):
        error = calls.submit(group, kind).exception()
        print(type(error).__name__, error.message, [type(one).__name__ for one in error.exceptions], error.exceptions[3].exceptions)
""")  # fmt: skip
    members = "['Odd', 'KeyError', 'RemoteError', 'ExceptionGroup'] (Odd('34'),)"
    assert told.splitlines() == [f"ExceptionGroup outer {members}", f"Group of mine {members}"]


@pytest.mark.parametrize("reuse", [False, True])
def test_a_function_may_change_what_pergpu_has_set(home, reuse):
    told = python(home, f"""
def change(how):
    if how == "clear":
        os.environ.clear()
    elif how == "pop":
        os.environ.pop("PERGPU_OUT")
    else:
        os.environ["PERGPU_OUT"] = how
    return how
with pool(1, reuse={reuse}) as calls:
    print([calls.submit(change, how).result() for how in ("clear", "pop", "/nowhere")])
""")  # fmt: skip
    assert told == "['clear', 'pop', '/nowhere']\n"


def test_a_program_is_told_once_that_the_coordinator_was_stopped_and_goes_on_after_the_next_start(home, begun):  # noqa: F811
    process = begun("""
with pool(1, name="one") as one, pool(1, name="two") as two:
    futures = [one.submit(stamp, 0), two.submit(stamp, 1)]
    print([future.result() for future in futures])
""")
    home.close_gate()
    home.until_running(2)
    home.run("coordinator", "stop")
    told = process.stdout.readline()
    assert told.startswith("pergpu: the coordinator was stopped") and "starts it again" in told
    assert home.coordinator() is None
    home.open_gate()
    home.run("ps")
    assert rest_of(process) == "[0, 1]\n"
