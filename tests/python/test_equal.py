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


TWO = """
import abc, argparse, collections, dataclasses, enum, functools, typing
{0}
"""
CHANGED = {
    "list of a class": "class C: x = [@@]\ndef f(): return C.x",
    "dict of a class": "class C: x = {'a': @@}\ndef f(): return C.x",
    "set of a class": "class C: x = {@@}\ndef f(): return C.x",
    "method of a base": "class B:\n    def m(self): return @@\nclass C(B): pass\ndef f(): return C().m()",
    "nested class": "class O:\n    class I:\n        def m(self): return @@\ndef f(): return O.I().m()",
    "method of a metaclass": "class M(type):\n    def t(cls): return @@\nclass C(metaclass=M): pass\ndef f(): return C.t()",
    "cached function": "@functools.lru_cache\ndef f(): return @@",
    "cached helper": "@functools.lru_cache\ndef h(): return @@\ndef f(): return h()",
    "cached method": "class C:\n    @functools.lru_cache\n    def m(self): return @@\ndef f(): return C().m()",
    "size of a cache": "@functools.lru_cache(maxsize=@@)\ndef h(): return 1\ndef f(): return h()",
    "cached property": "class C:\n    @functools.cached_property\n    def m(self): return @@\ndef f(): return C().m",
    "partial method": "class C:\n    def m(self, x): return x\n    p = functools.partialmethod(m, @@)\ndef f(): return C().p()",
    "setter": "class C:\n    @property\n    def x(self): return 1\n    @x.setter\n    def x(self, v): self.v = v * @@\ndef f(): C().x = 3",
    "deleter": "class C:\n    @property\n    def x(self): return 1\n    @x.deleter\n    def x(self): self.v = @@\ndef f(): del C().x",
    "enum": "class C(enum.Enum): A = @@\ndef f(): return C.A.value",
    "enum's method": "class C(enum.Enum):\n    A = 1\n    def m(self): return @@\ndef f(): return C.A.m()",
    "enum's attribute": "class C(enum.Enum):\n    A = 1\n    def __init__(self, _): self.k = [@@]\ndef f(): return C.A.k",
    "function attribute": "def f(): return f.k\nf.k = @@",
    "generic function": "@functools.singledispatch\ndef h(x): return 0\n@h.register\ndef _(x: int): return @@\ndef f(): return h(3)",
    "default factory": "@dataclasses.dataclass\nclass C:\n    a: list = dataclasses.field(default_factory=lambda: [@@])\ndef f(): return C().a",
    "named tuple": "class N(typing.NamedTuple):\n    a: int = @@\ndef f(): return N().a",
    "abstract class": "class B(abc.ABC):\n    @abc.abstractmethod\n    def m(self): ...\n    def n(self): return @@\nclass C(B):\n    def m(self): return 1\nf = C().m",
    "class method": "class C:\n    @staticmethod\n    def m(): return @@\n    @classmethod\n    def k(cls): return cls.m()\nf = C.k",
    "own descriptor": "class D:\n    def __init__(self, v): self.v = v\n    def __get__(self, *_): return self.v\nclass C: x = D([@@])\ndef f(): return C.x",
    "annotation": "def f(x: '@@' = 1): return f.__annotations__",
    "handled lines": "def f():\n    x = 1\n    if @@ == 1: x = 2\n    return x",
}  # fmt: skip


@pytest.mark.parametrize("text", CHANGED.values(), ids=CHANGED)
def test_a_changed_program_makes_other_calls(text, tmp_path):
    told = []
    for number in "1", "2", "1":
        (tmp_path / "program.py").write_text(TWO.format(text.replace("@@", number)) + "from pergpu._equal import digest_of_call as d\nprint(d(f, (), {}))")
        told.append(subprocess.run([sys.executable, str(tmp_path / "program.py")], stdout=subprocess.PIPE, check=True).stdout)
    assert told[0] == told[2] != told[1] and b"None" not in told[0]


@pytest.mark.parametrize("use", ["from near import f", "import near\ndef f(): return near.f()", "def f():\n    import near\n    return near.f()",
                                 "import folder.near\ndef f(): return folder.near.f()"])  # fmt: skip
def test_modules_beside_the_script_belong_to_it(use, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "program.py").write_text(use + "\nfrom pergpu._equal import digest_of_call as d\nprint(d(f, (), {}))\nimport near\nprint(d(f, (), {}))")
    told = []
    for number in "1", "22", "1":
        for name in "near.py", "folder/near.py":
            (tmp_path / name).write_text(f"class C:\n    x = [{number}]\ndef f(): return C.x\ndef other(): pass\n")
        text = subprocess.run([sys.executable, "-B", str(tmp_path / "program.py")], stdout=subprocess.PIPE, text=True, check=True).stdout
        told.append(text.split())
    assert told[0] == told[2] and told[0][1] != told[1][1] and told[0][1] != "None"
    assert told[0][0] in ("None", told[0][1]), "a module that isn't loaded can't be compared"


def test_types_of_arrays_belong_to_a_call():
    numpy = pytest.importorskip("numpy")

    class Own(numpy.ndarray):
        pass

    def digest(value):
        return digest_of_call(print, (value,), {})

    plain = numpy.arange(4.0).reshape(2, 2)
    masked = [numpy.ma.array([1.0, 2.0], mask=mask) for mask in ([0, 0], [0, 1])]
    values = [plain, plain.T.copy().T, plain.view(numpy.matrix), plain.view(numpy.recarray), *masked, masked[0].data, numpy.float64(1), numpy.array(1.0), 1.0]
    values += [numpy.array([1, "a"], dtype=object), numpy.array([1, "b"], dtype=object)]
    digests = [digest(value) for value in values]
    assert None not in digests and len({*digests}) == len(digests)
    assert digest(plain.view(Own)) is None and digest(numpy.ma.masked) is None


def test_types_of_tensors_belong_to_a_call():
    torch = pytest.importorskip("torch")

    class Own(torch.Tensor):
        pass

    def digest(value):
        return digest_of_call(print, (value,), {})

    values = [torch.ones(2), torch.nn.Parameter(torch.ones(2)), torch.ones(2, requires_grad=True)]
    digests = [digest(value) for value in values]
    assert None not in digests and len({*digests}) == len(digests)
    assert digest(torch.ones(2).as_subclass(Own)) is None


def test_code_that_finds_its_names_itself_is_not_compared():
    made = {"__name__": "__main__"}
    exec("import sys\ndef f(): return eval('1')\ndef g(): return globals()\ndef h(): return sys", made)
    assert digest_of_call(made["f"], (), {}) is None and digest_of_call(made["g"], (), {}) is None
    assert digest_of_call(made["h"], (), {}) is not None


@pytest.mark.parametrize("use", ["import near\ndef f(): return getattr(near, 'f')()", "import near\ndef g(m): return m.f()\ndef f(): return g(near)",
                                 "import near\ndef f():\n    import near as n\n    return getattr(n, 'f')()", "def f():\n    import absent_module\nimport near"])  # fmt: skip
def test_a_module_whose_names_are_looked_up_is_not_compared(use, tmp_path):
    (tmp_path / "near.py").write_text("def f(): return 1")
    (tmp_path / "program.py").write_text(use + "\nfrom pergpu._equal import digest_of_call as d\nprint(d(f, (), {}))")
    text = subprocess.run([sys.executable, "-B", str(tmp_path / "program.py")], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert (text == "None\n") == ("absent" not in use)
