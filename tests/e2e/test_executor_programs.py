"""Programs that are drawn from a grammar: a call comes to the same as with ProcessPoolExecutor and `spawn`.

A program is a function of a script, made of pieces: values, closures, classes, decorators, threads, children, exits and signals.
Documented differences (docs/executor.md) are written down in `expected`, or not looked at: a function comes back as a copy.  PERGPU_LONG=1 draws 300 programs; a
failure names the seed.
"""
import json
import os
import random
import subprocess
import sys

import pytest

from harness import LONG
from test_executor import environment

COUNT = 300 if LONG else 24
TOP = '''
import collections, concurrent.futures, contextlib, dataclasses, enum, functools, io, multiprocessing, os, re, signal, subprocess, sys, threading, time, warnings
class Plain:
    kind = "plain"
    def __init__(self, x):
        self.x = x
    def __eq__(self, other):
        return type(other) is type(self) and vars(self) == vars(other)
    def __repr__(self):
        return f"{type(self).__name__}({self.x!r})"
class Child(Plain):
    @classmethod
    def made(cls, x):
        return cls(x)
    @staticmethod
    def twice(x):
        return 2 * x
    @property
    def more(self):
        return self.x + 1
@dataclasses.dataclass(frozen=True)
class Data:
    x: int
    y: tuple = ()
class Color(enum.Enum):
    RED = 1
    BLUE = 2
Point = collections.namedtuple("Point", "x y")
class Custom(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)
        self.a, self.b = a, b
class Quiet(RuntimeError):
    pass
def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return "decorated", function(*args, **kwargs)
    return wrapper
@decorated
def under(x):
    return x + 1
@functools.lru_cache(maxsize=None)
def cached(x):
    return x * x
def generator(n):
    yield from range(n)
def recursive(n):
    return 1 if n <= 0 else n * recursive(n - 1)
def square(x):
    return x * x
LIMIT = 7
@contextlib.contextmanager
def managed(told):
    told.append("in")
    try:
        yield told
    finally:
        told.append("out")
'''
VALUES = ["{n}", "'text {n}'", "None", "[{n}, 2.5, 'a']", "{{'a': {n}, (1, 2): [None]}}", "Plain({n})", "Child.made({n})", "Data({n}, (1, 2))", "Color.RED", "Point({n}, 2)",
          "b'bytes' * {n}", "{{1, 2, {n}}}", "range({n})", "1j * {n}", "float('inf')", "under({n})", "cached({n})", "list(generator({n}))", "recursive({n})",
          "Child({n}).more", "Child.twice({n})", "LIMIT + {n}", "collections.OrderedDict(a={n})", "collections.Counter('aab')", "(lambda y: y + {n})(3)", "square", "Child", "Custom(1, {n})"]  # fmt: skip
STEPS = [
    "print('told {n}')",
    "print('error {n}', file=sys.stderr)",
    "x = {value}; got.append(x)",
    "import json, decimal; got.append(decimal.Decimal({n}))",
    "got.append([square(i) for i in range({n})])",
    "threads = [threading.Thread(target=got.append, args=({n},)) for _ in range(3)]; [t.start() for t in threads]; [t.join() for t in threads]",
    "threading.Thread(target=time.sleep, args=(0.05,)).start()",
    "threading.Thread(target=time.sleep, args=(50,), daemon=True).start()",
    "got.append(subprocess.run([sys.executable, '-c', 'print({n})'], stdout=subprocess.PIPE).stdout)",
    "got.append(subprocess.run(['sh', '-c', 'exit {n}']).returncode)",
    "with managed(got): got.append({n})",
    "with warnings.catch_warnings(): warnings.simplefilter('ignore'); warnings.warn('w')",
    "previous = signal.signal(signal.SIGUSR1, lambda *_: got.append('signal')); os.kill(os.getpid(), signal.SIGUSR1); signal.signal(signal.SIGUSR1, previous)",
    "with contextlib.redirect_stdout(io.StringIO()) as out: print('hidden'); got.append(out.getvalue())",
    "pid = os.fork(); pid or os._exit({n}); got.append(os.waitpid(pid, 0)[1])",
    "with multiprocessing.get_context('{method}').Pool(1) as pool: got.append(pool.map(square, range({n})))",
    "queue = multiprocessing.get_context('fork').Queue(); child = multiprocessing.get_context('fork').Process(target=queue.put, args=({n},)); child.start(); got.append(queue.get()); child.join()",
    "with concurrent.futures.ThreadPoolExecutor(2) as pool: got.extend(pool.map(square, range({n})))",
    "import atexit; atexit.register(print, 'at exit')",
    "import atexit; atexit.register(lambda: 1 / 0)",
    "sys.stdout = open(os.devnull, 'w')",
    "sys.stdout.close()",
    "os.environ['SET'] = '{n}'; got.append(os.environ['SET'])",
    "sys.setrecursionlimit(2000)",
    "os.chdir('/'); got.append(os.getcwd())",
    "def inner(y, k={n}): return argument, y, k\n    got.append(inner(2))",
    "class Local:\n        value = {n}\n    got.append(Local.value)",
    "got.append(__name__ in ('__main__', '__mp_main__'))",
]
ENDS = [
    *["return got"] * 8,
    "return {value}",
    "raise ValueError('value {n}', got)",
    "raise Custom({n}, 'b')",
    "raise Quiet({n}) from KeyError('cause')",
    "raise KeyError({value})",
    "1 / 0",
    "raise OSError(2, 'No such file', 'name')",
    "raise UnicodeDecodeError('utf-8', b'a', 0, 1, 'why')",
    "raise KeyboardInterrupt('by hand')",
    "raise StopIteration({n})",
    "return threading.Lock()",
    "return (i for i in range(3))",
    "os._exit({n})",
    "os.kill(os.getpid(), signal.SIGKILL)",
    "sys.exit({n})",
    "os.abort()",
    "recursive(10 ** 6)",
    "return bytearray({n}) * 100_000",
]
SPAWN = '''
def outcome(future):
    try:
        return re.sub(" at 0x[0-9a-f]+", "", repr(future.result(100)))
    except concurrent.futures.process.BrokenProcessPool as error:
        return "broken"
    except BaseException as error:
        return re.sub(" at 0x[0-9a-f]+", "", f"{type(error).__name__} {error.args!r} {getattr(error, 'a', None)!r}")
if __name__ == "__main__":
    import json
    told = []
    for name, argument in json.loads(sys.argv[2]):
        call = globals()[name]
        if sys.argv[1] == "spawn":  # one for each, for a program may break it
            with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                told.append(outcome(pool.submit(call, argument)))
        elif not told:
            import pergpu
            told = [None]
            with pergpu.Executor(2, gpus=0, lanes=2, timeout="100s", grace="1s", reuse=sys.argv[1] == "warm") as pool:
                futures = [pool.submit(globals()[name], argument) for name, argument in json.loads(sys.argv[2])]
                told = [outcome(future) for future in futures]
            break
    print("told " + json.dumps(told))
'''


def program(seed):
    """Name, text and argument of a function; whether the outcome is a documented difference."""
    chance = random.Random(seed)

    def filled(text):
        text = text.replace("{value}", chance.choice(VALUES).replace("{n}", str(chance.randrange(1, 6))))
        text = text.replace("{method}", chance.choice(("fork", "spawn", "forkserver"))).replace("{n}", str(chance.randrange(1, 6)))
        return text.replace("{{", "{").replace("}}", "}")

    lines = ["global LIMIT", "got = [argument]", *(filled(chance.choice(STEPS)) for _ in range(chance.randrange(1, 5))), filled(chance.choice(ENDS))]
    name = f"program_{seed}"
    return name, f"def {name}(argument):\n" + "".join(f"    {line}\n" for line in lines), chance.randrange(100)


def expected(text, outcome):
    """That of spawn, but for what docs/executor.md names."""
    if "sys.exit(" in text.splitlines()[-1]:
        return ("broken",) if outcome.startswith("SystemExit") else (outcome,)
    return (outcome,)


@pytest.mark.parametrize("kind", ["fresh", "warm"])
def test_a_call_comes_to_the_same_as_in_a_process_of_the_standard_library(home, kind):
    pytest.importorskip("cloudpickle")
    first = int(os.environ.get("PERGPU_SEED", "0" if not LONG else str(random.randrange(10**6))))
    drawn = [program(seed) for seed in range(first, first + COUNT)]
    if kind == "warm":  # a program may end its worker, or change it for the next one
        drawn = [one for one in drawn if not any(word in one[1] for word in ("sys.stdout", "atexit", "chdir", "setrecursionlimit"))]
    script = home.file("script.py", TOP + "".join(text for _, text, _ in drawn) + SPAWN)
    calls = json.dumps([(name, argument) for name, _, argument in drawn])
    told = {}
    for way in ("spawn", kind):
        done = subprocess.run([sys.executable, script, way, calls], cwd=home.work, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=1500 if LONG else 200, env=environment(home))  # fmt: skip
        assert "\ntold " in "\n" + done.stdout, done.stdout + done.stderr
        told[way] = json.loads(done.stdout.rpartition("told ")[2])
    wrong = [
        f"{text}\nspawn:  {theirs}\npergpu: {ours}\n"
        for (_, text, _), theirs, ours in zip(drawn, told["spawn"], told[kind])
        if ours not in expected(text, theirs)
    ]
    assert not wrong, "\n".join(wrong)
