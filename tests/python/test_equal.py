"""Which calls are equal, in this process and in another one."""
import os
import subprocess
import sys

import pytest

pytest.importorskip("cloudpickle")
from pergpu._equal import digest_of_call  # noqa: E402

VALUES = """
import collections, dataclasses, datetime, enum, functools, pathlib
FACTOR = 2
class Color(enum.Enum):
    RED = 1
@dataclasses.dataclass
class Config:
    x: int
    names: set
    def scaled(self):
        return self.x * FACTOR
class Other(Config):
    pass
def helper():
    return FACTOR
def f(a=1, *, b=2):
    return [helper() for _ in range(a)], {"x", "y"}
ring = []
ring.append(ring)
values = [f, functools.partial(f, 1), Config(1, {"a", "b", "c"}), Config(2, {"a", "b", "c"}), Other(1, {"a", "b", "c"}), Other(1, set()).scaled,
          {"b": 1, "a": 2}, ["b", 1], ("b", 1), b"b", bytearray(b"b"), "b", 1, 1.0, True, None, pathlib.Path("a"), Color.RED, lambda: FACTOR, slice(1, 2),
          collections.OrderedDict(a=1), datetime.date(2020, 1, 1), range(3), object, ring, {1, 2}, frozenset((1, 2)), KeyError("a"), len]
try:
    import numpy
    values += [numpy.arange(5.0), numpy.arange(5), numpy.arange(6.0).reshape(2, 3), numpy.arange(6.0).reshape(2, 3).T, numpy.zeros((0, 2)), numpy.float64(2),
               numpy.array(["2020-01-01"], dtype="M8[D]"), numpy.zeros(2, dtype="i4,f4")]
except ImportError:
    pass
try:
    import torch
    values += [torch.ones(3), torch.ones(3).bfloat16(), torch.ones(3, requires_grad=True), torch.zeros(0)]
except ImportError:
    pass
"""


def test_equal_calls_have_one_digest_in_each_process():
    text = VALUES + "from pergpu._equal import digest_of_call as d\nprint([d(f, (value,), {'b': value}) for value in values])"
    told = set()
    for seed in "0", "1", "2":
        told.add(subprocess.run([sys.executable, "-c", text], env={**os.environ, "PYTHONHASHSEED": seed}, stdout=subprocess.PIPE, check=True).stdout)
    assert len(told) == 1
    digests = eval(told.pop())
    assert None not in digests and len({*digests}) == len(digests)


def test_what_differs_makes_other_calls():
    def one(x):
        return x

    made = {}
    exec("def g(x): return x + 1\ndef h(x): return g(x)", made)
    again = {}
    exec("# a comment\n\ndef g(x): return x + 2\ndef h(x): return g(x)", again)
    assert digest_of_call(one, (1,), {}) == digest_of_call(one, (1,), {}) != digest_of_call(one, (), {"x": 1})
    assert digest_of_call(made["g"], (1,), {}) != digest_of_call(again["g"], (1,), {})
    assert digest_of_call(made["h"], (1,), {}) != digest_of_call(again["h"], (1,), {}), "what it calls has changed"
    assert digest_of_call(one, ({"a": 1, "b": 2},), {}) == digest_of_call(one, ({"b": 2, "a": 1},), {})


def test_what_nobody_can_compare_has_none():
    class Refuses:
        def __reduce_ex__(self, protocol):
            raise KeyError("no")

    with open(os.devnull) as file:
        assert digest_of_call(print, (file,), {}) is None
    assert digest_of_call(print, (Refuses(),), {}) is None
