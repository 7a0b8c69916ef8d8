"""What belongs to the key of shared data: the function that makes it, and where it comes from."""
import argparse
import dataclasses
import datetime
import functools
import gc
import os
import pathlib
import subprocess
import sys
import threading

import pytest

numpy = pytest.importorskip("numpy")
share = pytest.importorskip("pergpu.share", reason="the compiled part of the package is not built")
from pergpu.share._origin import origin_of  # noqa: E402


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(share._dataset, "_seen", {})
    monkeypatch.setattr(share._dataset, "_by_key", {})


def shown(source):
    """The data as the process has it that asks for it under one key."""
    return share.dataset("train", source).numpy().tolist()


def test_a_mended_function_is_called():
    kept = share.dataset("train", lambda: numpy.ones(2))
    assert shown(lambda: numpy.zeros(2)) == [0, 0]
    assert shown(lambda: numpy.zeros(2)) == [0, 0] and kept.numpy().tolist() == [1, 1]


def test_two_projects_have_data_of_their_own(tmp_path):
    script = """
import os, sys, time
from pergpu import share
import numpy
def load():
    return numpy.full(1, float(os.getpid()))
print(share.dataset("train", load).numpy()[0] == os.getpid(), flush=True)
sys.stdin.readline()
"""
    processes = []
    for place in ("a/train.py", "b/train.py", "a/evaluate.py"):
        path = tmp_path / place
        path.parent.mkdir(exist_ok=True)
        path.write_text(script)
        processes.append(subprocess.Popen([sys.executable, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        made = processes[-1].stdout.readline()
        assert made == ("False\n" if place == "a/evaluate.py" else "True\n"), "a copy in the same folder is the same function"
    for process in processes:
        process.communicate()


def load(value, other=0):
    return numpy.full(1, value + other)


def closure(value):
    return lambda: load(value)


class Project:
    def __init__(self, value):
        self.value = value

    def load(self):
        return load(self.value)

    def __call__(self):
        return load(self.value)


def test_values_that_are_bound_to_a_function_belong_to_the_key():
    sources = [closure(1), closure(2), functools.partial(load, 3), functools.partial(load, 3, other=1), lambda value=5: load(value)]
    assert [shown(source) for source in sources] == [[1], [2], [3], [4], [5]]
    assert origin_of(closure(1)) == origin_of(closure(1)) != origin_of(closure(2))


@pytest.mark.parametrize("source", [Project(1).load, Project(1), functools.partial(Project(1).load), dict, len, functools.wraps(load)(closure(1))])
def test_all_that_can_be_called_has_an_origin(source):
    assert origin_of(source) == origin_of(source) != origin_of(load)


@dataclasses.dataclass
class Config:
    n: int


class Tagged(numpy.ndarray):
    pass


BOUND = {
    "list": lambda n: [n],
    "tuple of lists": lambda n: ([n],),
    "dict": lambda n: {"n": n},
    "path": lambda n: pathlib.Path(str(n)),
    "dataclass": Config,
    "namespace": lambda n: argparse.Namespace(n=n),
    "array": lambda n: numpy.array([n]),
    "date": lambda n: datetime.date(2000, 1, n),
    "function in a list": lambda n: [lambda: n],
}


@pytest.mark.parametrize("make", BOUND.values(), ids=BOUND)
def test_values_of_each_type_belong_to_the_key(make):
    for bind in (lambda x: functools.partial(load, x), lambda x: functools.partial(load, 1, other=x), lambda x: lambda: x, lambda x: lambda y=x: y):
        assert origin_of(bind(make(1))) == origin_of(bind(make(1))) != origin_of(bind(make(2)))


def test_the_object_of_a_method_and_a_callable_object_belong_to_the_key():
    assert [shown(source) for source in (Project(1).load, Project(2).load, Project(3), Project(4))] == [[1], [2], [3], [4]]
    assert origin_of(Project([1]).load) == origin_of(Project([1]).load) != origin_of(Project([2]).load)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (functools.partial(load, threading.Lock()), "argument 1 of the partial of load (lock) can't be compared"),
        (functools.partial(load, 1, other=threading.Lock()), "'other' of the partial of load (lock) can't be compared"),
        (closure(threading.Lock()), "'value' of closure.<locals>.<lambda> (lock) can't be compared"),
        (closure(numpy.ones(2).view(Tagged)), "'value' of closure.<locals>.<lambda> (Tagged) can't be compared"),
        (Project(threading.Lock()).load, "attribute 'value' of Project (lock) can't be compared"),
        (Project(threading.Lock()), "attribute 'value' of Project (lock) can't be compared"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused(source, words):
    with pytest.raises(TypeError) as refused:
        share.dataset("train", source)
    assert str(refused.value).startswith(words) and "pass plain values" in str(refused.value)


def test_what_a_helper_has_is_not_refused():
    text = "def make(held):\n    def helper(): return held and 1\n    return helper\nhelper = make(held)\ndef load(): return helper()"
    made = {"__name__": "data", "held": threading.Lock()}
    exec(compile(text, "<cell>", "exec"), made)
    assert origin_of(made["load"]) == origin_of(made["load"])


def module(text, name="data"):
    made = {"__name__": name}
    exec(compile(text, "<cell>", "exec"), made)
    return made["load"]


def test_the_code_of_functions_that_it_calls_belongs_to_the_key_and_global_values_do_not():
    text = "import numpy\nJOB = 1\ndef helper(): return {0}\ndef load():\n    print(JOB)\n    return helper()\n"
    assert origin_of(module(text.format(1))) == origin_of(module("# more lines\n\n" + text.format(1).replace("JOB = 1", "JOB = 2")))
    assert origin_of(module(text.format(1))) != origin_of(module(text.format(2)))


def test_it_is_the_same_in_each_process():
    text = """
import functools, sys
from pergpu.share._origin import origin_of
def load(x={"a", "b"} and 1, *, y="z"):
    def inner(): return load
    return x in {"a", "b", "c", 1, None} and [inner, {y: "é"}, (1, 2.5, b"q", ...)]
print(origin_of(load), origin_of(functools.partial(load, 1, y=2)))
"""
    told = set()
    for seed in "0", "1", "2":
        env = {**os.environ, "PYTHONHASHSEED": seed}
        told.add(subprocess.run([sys.executable, "-c", text], env=env, stdout=subprocess.PIPE, text=True, check=True).stdout)
    assert len(told) == 1


calls = []


def counted():
    calls.append(1)
    return numpy.zeros(3)


def test_what_was_dropped_is_loaded_again():
    calls.clear()

    first = share.dataset("train", counted).numpy()
    assert share.dataset("train", counted) is not None and len(calls) == 1
    share.dataset("train", lambda: numpy.ones(1))
    assert share.drop("train") and not share.drop("train") and not share.drop("nothing")
    share.dataset("train", counted)
    assert len(calls) == 2 and first.tolist() == [0, 0, 0]


def test_a_drop_frees_the_memory_with_the_last_array():
    def mapped():
        with open("/proc/self/maps", encoding="utf-8") as file:
            return sum("pergpu:data" in line for line in file)

    gc.collect()
    before, descriptors = mapped(), len(os.listdir("/proc/self/fd"))
    array = share.dataset("train", lambda: numpy.zeros(3))
    share.drop("train")
    assert mapped() == before + 1 and len(os.listdir("/proc/self/fd")) == descriptors
    del array
    gc.collect()
    assert mapped() == before
