"""The main module of a call: multiprocessing, pickle and names of the script work in it as in the script."""
import os
import subprocess
import sys

import pytest

from test_executor import environment, python

# Guarded, as multiprocessing's children need it.
HEAD = """
import concurrent.futures, dataclasses, enum, functools, multiprocessing, os, pickle, sys, threading, typing
import pergpu
def pool(reuse=False, **options):
    return pergpu.Executor(1, **{"gpus": 0, "lanes": 1, "timeout": "100s", "reuse": reuse, **options})
"""
METHODS = ("fork", "spawn", "forkserver")


def guarded(home, top, work, *args):
    """The output of a script whose own work is guarded."""
    indented = "".join(f"    {line}\n" for line in work.strip("\n").split("\n"))
    script = home.file("script.py", HEAD + top + '\nif __name__ == "__main__":\n' + indented)
    done = subprocess.run([sys.executable, script, *args], cwd=home.work, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=240, env=environment(home))  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("reuse", [False, True])
def test_multiprocessing_works_in_a_call(home, reuse):
    told = guarded(home, """
class Pair(typing.NamedTuple):
    x: int
def double(pair):
    return Pair(2 * pair.x)
def of_pool(method):
    with multiprocessing.get_context(method).Pool(1) as children:
        return children.map(double, [Pair(1), Pair(2)])
def of_executor(method):
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context(method)) as children:
        return list(children.map(double, [Pair(1), Pair(2)]))
""", f"""
with pool({reuse}) as executor:
    futures = [executor.submit(function, method) for function in (of_pool, of_executor) for method in {METHODS}]
    print([future.result() == [Pair(2), Pair(4)] for future in futures])
""")  # fmt: skip
    assert told == f"{[True] * 6}\n"


@pytest.mark.parametrize("guard", [True, False])
def test_children_of_a_call_run_nothing_that_nobody_asked_for(home, guard):
    """A module that is called as the program's first argument; a script without a guard."""
    home.file("train.py", "def main():\n    open('ran', 'a').close()\n")
    work = """
with pool() as executor:
    print(executor.submit(spawns).result())
"""
    top = """
def spawns():
    with multiprocessing.get_context("spawn").Pool(2) as children:
        return children.map(abs, [-1, -2])
"""
    if guard:
        assert guarded(home, top, work, "train") == "[1, 2]\n"
    else:
        script = home.file("script.py", HEAD + top + work)
        done = subprocess.run([sys.executable, script, "train"], cwd=home.work, text=True, capture_output=True, timeout=240,
                              env=environment(home))  # fmt: skip
        assert (done.returncode, done.stdout) == (0, "[1, 2]\n"), done.stderr
    assert len(home.json("ps", "-a")["jobs"]) == 1
    assert not os.path.exists(home.work + "/ran")


def test_a_program_that_runs_as_a_module_is_found_by_children(home):
    home.file("package/__init__.py", "")
    top = """
def double(i):
    return 2 * i
def spawns():
    with multiprocessing.get_context("spawn").Pool(1) as children:
        return children.map(double, [1])
"""
    work = """
if __name__ == "__main__":
    with pool() as executor:
        print(executor.submit(spawns).result(), __spec__.name)
"""
    home.file("package/program.py", HEAD + top + work)
    done = subprocess.run([sys.executable, "-m", "package.program"], cwd=home.work, text=True, capture_output=True,
                          timeout=240, env=environment(home))  # fmt: skip
    assert done.stdout == "[2] package.program\n", done.stderr


NAMES = """
@dataclasses.dataclass
class Sample:
    x: int
@dataclasses.dataclass(frozen=True, **({"slots": True} if sys.version_info >= (3, 10) else {}))
class Slots:
    x: int
class Color(enum.Enum):
    RED = 1
class Pair(typing.NamedTuple):
    x: int
class Lazy:
    def __init__(self, x):
        self.x = x
    @functools.cached_property
    def twice(self):
        return 2 * self.x
@functools.lru_cache(maxsize=7)
def cached(x):
    return Sample(x)
@functools.singledispatch
def kind(x):
    return "object"
@kind.register(int)
def _(x):
    return "int"
class Strange(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a} {b}")
        self.a, self.b = a, b
"""


@pytest.mark.parametrize("main", ["value", "run"])
@pytest.mark.parametrize("reuse", [False, True])
def test_names_of_the_script_go_by_value_and_back(home, main, reuse):
    told = guarded(home, NAMES + """
def by_name():
    things = [Sample(1), Slots(2), Color.RED, Pair(3), Lazy(4)]
    pickle.loads(pickle.dumps(things))
    return things
def given(things):
    assert pickle.loads(pickle.dumps(things))[0] == things[0]
    return things[-1].twice, dataclasses.fields(things[0])[0].name, things[2] is Color.RED
def raises():
    raise Strange(1, b=2)
def functions():
    assert cached(1) is cached(1) and cached.cache_parameters()["maxsize"] == 7
    return kind(1), kind("a"), cached(1)
""", f"""
with pool({reuse}, main={main!r}) as executor:
    things = executor.submit(by_name).result()
    print([type(one).__name__ for one in things], things[:4] == [Sample(1), Slots(2), Color.RED, Pair(3)])
    print(executor.submit(given, [Sample(1), Slots(2), Color.RED, Pair(3), Lazy(4)]).result())
    print(executor.submit(functions).result() == ("int", "object", Sample(1)))
    error = executor.submit(raises).exception()
    print(type(error) is Strange, str(error), error.a, error.b)
    print(executor.submit(cached, 5).result(), executor.submit(kind, 5).result())
""")  # fmt: skip
    assert told.splitlines() == [
        "['Sample', 'Slots', 'Color', 'Pair', 'Lazy'] True", "(8, 'x', True)", "True", "True 1 2 1 2", "Sample(x=5) int",
    ]  # fmt: skip


def test_a_class_of_an_argument_is_found_by_pickle(home):
    """No function of the call knows the class by its name."""
    home.file("helper.py", "import pickle\ndef copies(x):\n    return pickle.loads(pickle.dumps(x))\n")
    told = guarded(home, "class Net:\n    pass\n", """
import helper
with pool() as executor:
    print(type(executor.submit(helper.copies, Net()).result()) is Net)
""")  # fmt: skip
    assert told == "True\n"


def test_main_run_does_what_the_script_does_at_its_top(home):
    told = guarded(home, """
import random
random.seed(7)
SETTING = os.environ.setdefault("SETTING", "set at the top")
def look():
    return SETTING, random.random(), __name__, sys.modules["__main__"].__name__
""", """
with pool(main="run") as executor:
    print(executor.submit(look).result() == (SETTING, random.random(), "__mp_main__", "__mp_main__"))
""")  # fmt: skip
    assert told == "True\n"


@pytest.mark.parametrize("main", ["value", "run"])
def test_a_child_of_multiprocessing_may_submit(home, main):
    """The script is the module `__mp_main__` there."""
    told = guarded(home, """
import dataclasses
FACTOR = 3
@dataclasses.dataclass
class Point:
    x: int
class Pair(typing.NamedTuple):
    x: "Point"
def times(x):
    return FACTOR * x
@functools.lru_cache
def of(pair):
    return times(pair.x)
def calls(point, pair):
    copy = pickle.loads(pickle.dumps(point))
    return Point(times(copy.x)), Pair(of(pair)), (lambda: FACTOR)(), typing.get_type_hints(Pair)["x"] is Point
def submits(main):
    for reuse in (False, True):
        with pool(reuse, main=main) as executor:
            point, pair, factor, is_found = executor.submit(calls, Point(2), Pair(3)).result()
        print(type(point) is Point, type(pair) is Pair, point.x, pair.x, factor, is_found)
""", f"""
child = multiprocessing.get_context("spawn").Process(target=submits, args=("{main}",))
child.start()
child.join()
""")  # fmt: skip
    assert told == 2 * "True True 6 9 3 True\n"


def test_a_script_that_is_run_submits_nothing_again(home):
    """main="run" and no guard: the process of the call would submit the call once more."""
    told = python(home, """
def one():
    return 1
with pool(main="run") as executor:
    error = executor.submit(one).exception()
print(type(error).__name__, 'under `if __name__ == "__main__":`' in str(error.__cause__))
""")  # fmt: skip
    assert told == "JobFailed True\n" and len(home.json("ps", "-a")["jobs"]) == 1


def test_main_is_value_or_run_and_needs_a_script(home):
    told = python(home, """
for keys in ({"main": "spawn"}, {"main": None}):
    try:
        pool(**keys)
    except ValueError as error:
        print(error)
""")  # fmt: skip
    assert told.count('expected "value" or "run"') == 2
    text = 'import pergpu\ntry:\n    pergpu.Executor(gpus=0, main="run")\nexcept ValueError as error:\n    print(error)'
    done = subprocess.run([sys.executable, "-c", text], cwd=home.work, text=True, capture_output=True, env=environment(home))
    assert "this session has no file" in done.stdout, done.stderr


@pytest.mark.parametrize("reuse", [False, True])
def test_classes_of_the_script_keep_their_module_and_stay_as_they_are(home, reuse):
    """Also those with a base class of the script, and after one has come back as a result."""
    told = guarded(home, """
import abc
LIMIT = 1
class Base(abc.ABC):
    @abc.abstractmethod
    def limit(self): ...
class Model(Base):
    def limit(self):
        return LIMIT
class Deep(Model):
    class Inner:
        pass
class Color(enum.Enum):
    RED = 1
    def limit(self):
        return LIMIT
def pickles():
    return [pickle.loads(pickle.dumps(kind())).limit() for kind in (Model, Deep)], Deep.__module__
def returns():
    return Model(), Deep, Color.RED, Deep.Inner
""", f"""
before = Model.limit, vars(Color)["limit"]
with pool({reuse}) as executor:
    print(executor.submit(pickles).result())
    model, deep, color, inner = executor.submit(returns).result()
    print(type(model) is Model, deep is Deep, color is Color.RED, inner is Deep.Inner, before == (Model.limit, vars(Color)["limit"]))
    LIMIT += 1
    print(model.limit(), color.limit(), executor.submit(pickles).result()[0])
""")  # fmt: skip
    assert told == "([1, 1], '__main__')\nTrue True True True True\n2 2 [2, 2]\n"


@pytest.mark.parametrize("main", ["value", "run"])
@pytest.mark.parametrize("reuse", [False, True])
def test_names_in_classes_of_the_script_are_found(home, main, reuse):
    """Also where the outer class goes along for that alone, and where it can't go along."""
    home.file("helper.py", "import pickle\ndef copies(x):\n    return pickle.loads(pickle.dumps(x))\n")
    told = guarded(home, """
class Base:
    pass
class Net(Base):
    class Block(Base):
        class Kind(enum.Enum):
            RED = 1
        def method(self):
            return 1
    @staticmethod
    def make(i):
        return Net.Block()
class Locked:
    lock = threading.Lock()
    class Inner:
        pass
def look():
    assert type(pickle.loads(pickle.dumps(Net.Block()))) is Net.Block and pickle.loads(pickle.dumps(Net.Block.Kind.RED)) is Net.Block.Kind.RED
    return [one.__qualname__ for one in (Net.Block, Net.Block.Kind, Net.Block.method, Net.make)]
def of_pool(make):
    with multiprocessing.get_context("fork").Pool(1) as children:
        return children.map(make, [1])
def name(x):
    return type(x).__qualname__
""", f"""
import helper
with pool({reuse}, main={main!r}) as executor:
    print(executor.submit(look).result())
    futures = [executor.submit(helper.copies, Net.Block()), executor.submit(helper.copies, Net.Block.Kind.RED)]
    print([type(future.result()) for future in futures] == [Net.Block, Net.Block.Kind])
    print(type(executor.submit(of_pool, Net.make).result()[0]) is Net.Block, executor.submit(name, Locked.Inner()).result())
""")  # fmt: skip
    assert told == "['Net.Block', 'Net.Block.Kind', 'Net.Block.method', 'Net.make']\nTrue\nTrue Locked.Inner\n"


@pytest.mark.parametrize("main", ["value", "run"])
@pytest.mark.parametrize("reuse", [False, True])
def test_generic_functions_and_methods_come_back(home, main, reuse):
    told = guarded(home, """
class Net:
    @functools.singledispatchmethod
    def kind(self, x):
        return "object"
    @kind.register
    def _(self, x: int):
        return "int"
@functools.singledispatch
def kind(x):
    return "object"
@kind.register(int)
def _(x):
    return "int"
def returns():
    @functools.singledispatch
    def local(x):
        return "object"
    local.register(Net, lambda x: "Net")
    return Net(), Net, kind, local
""", f"""
with pool({reuse}, main={main!r}) as executor:
    net, net_class, kind, local = executor.submit(returns).result()
    print(type(net) is Net, net_class is Net, net.kind(1), net.kind("a"), kind(1), kind("a"), local(1), local(Net()))
""")  # fmt: skip
    assert told == "True True int object int object object Net\n"


@pytest.mark.parametrize("reuse", [False, True])
def test_names_in_annotations_are_found(home, reuse):
    """They are texts; what can't go along, or is of another package, stays away."""
    home.file("helper.py", "class Heavy:\n    pass\n")
    home.file("hints.py", "import typing\ndef of(x):\n    return list(typing.get_type_hints(x).values())\n")
    told = guarded(home, """
import helper, hints
@dataclasses.dataclass
class Slot:
    next: "typing.Optional[Link]" = None
class Link:
    slot: "Slot"
class Locked:
    lock = threading.Lock()
Links = typing.List["Link"]
def annotated(a: "Slot", b: "Links", c: typing.Optional["Link"]) -> "None":
    pass
def look():
    return hints.of(annotated) == [Slot, typing.List[Link], typing.Optional[Link], type(None)] and hints.of(Link) == [Slot]
def heavy(x: "helper.Heavy", y: "Locked"):
    return "helper" in sys.modules
""", f"""
with pool({reuse}) as executor:
    print(executor.submit(heavy, 1, 2).result())
    print(executor.submit(hints.of, annotated).result() == [Slot, typing.List[Link], typing.Optional[Link], type(None)])
    print(executor.submit(hints.of, Slot).result() == [typing.Optional[Link]])
    print(executor.submit(look).result())
""")  # fmt: skip
    assert told == "False\nTrue\nTrue\nTrue\n"
