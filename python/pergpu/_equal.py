"""Which calls are equal: the same function, with the same code and arguments, in another run of a program.

A pickle doesn't tell, for it depends on what else is in memory.  So what a pickle is made of is hashed: values by type and
content, arrays by their bytes, functions by name and code, with the values that go along with them, all else as it would be pickled.
"""

from __future__ import annotations

import copyreg
import functools
import hashlib
import types
from collections.abc import Callable
from typing import Any

_PLAIN = (type(None), bool, int, float, complex, type(Ellipsis), type(NotImplemented))


def digest_of_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """None: it holds something of which nobody can say whether it's the same."""
    hasher = _Hasher()
    try:
        hasher.add((function, args, kwargs))
    except Exception:  # whatever the parts raise: then the call is none that was before
        return None
    return hasher.digest()


class _Hasher:
    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=20)
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no id comes twice

    def digest(self) -> str:
        return self._hash.hexdigest()

    def _say(self, *words: object) -> None:
        for word in words:
            data = str(word).encode("utf-8", "surrogatepass")
            self._hash.update(b"%d:%s" % (len(data), data))

    def add(self, what: Any) -> None:
        kind = type(what)
        if kind in _PLAIN:
            return self._say(kind.__name__, repr(what))
        if kind is str:
            return self._say("str", what)
        if kind in (bytes, bytearray):
            self._say(kind.__name__, len(what))
            return self._hash.update(what)
        if id(what) in self._seen:
            return self._say("again", self._seen[id(what)])
        self._seen[id(what)] = len(self._seen)
        self._kept.append(what)
        if kind in (list, tuple):
            self._say(kind.__name__, len(what))
            for one in what:
                self.add(one)
        elif kind in (set, frozenset):
            self._say(kind.__name__, *sorted(_alone(one) for one in what))
        elif kind is dict:
            self._say("dict", len(what))
            for _, key in sorted((_alone(key), key) for key in what):
                self.add(key)
                self.add(what[key])
        elif isinstance(what, types.CodeType):
            self._say(*_words_of(what))
            self.add(what.co_consts)
        elif isinstance(what, types.FunctionType):
            self._add_function(what)
        elif isinstance(what, types.MethodType):
            self._say("method")
            self.add(what.__func__)
            self.add(what.__self__)
        elif isinstance(what, types.ModuleType):
            self._say("module", what.__name__)
        elif isinstance(what, type):
            self._add_class(what)
        elif not self._add_array(what):
            self._add_reduced(what)

    def _add_function(self, function: types.FunctionType) -> None:
        self._say("function", function.__module__, function.__qualname__)
        self.add(function.__code__)
        self.add(function.__defaults__)
        self.add(function.__kwdefaults__)
        for cell in function.__closure__ or ():
            try:
                self.add(cell.cell_contents)
            except ValueError:
                self._say("empty")
        for name in _globals_of(function.__code__):
            value = function.__globals__.get(name, _Hasher)
            is_function = isinstance(value, types.FunctionType) and value.__module__ == function.__module__
            # Of the script everything goes along by value; of a module its functions are what it has when the call runs.
            if is_function or (function.__module__ == "__main__" and value is not _Hasher):
                self._say(name)
                self.add(value)

    def _add_class(self, what: type) -> None:
        self._say("class", what.__module__, what.__qualname__)
        if what.__module__ != "__main__":
            return
        for name, value in sorted(vars(what).items()):
            inner = getattr(value, "__func__", getattr(value, "fget", value))
            if isinstance(inner, (types.FunctionType, *_PLAIN, str, bytes, tuple)) and name not in ("__module__", "__doc__", "__firstlineno__"):
                self._say(name)
                self.add(inner)

    def _add_array(self, what: Any) -> bool:
        """Of numpy, torch, and what has a buffer."""
        if type(what).__module__.partition(".")[0] == "torch" and hasattr(what, "detach"):
            import torch

            dense = what.detach().cpu().contiguous()
            self._say("tensor", what.dtype, tuple(what.shape), what.requires_grad)
            self._hash.update(dense.reshape(-1).view(torch.uint8).numpy() if dense.numel() else b"")
            return True
        if getattr(type(what), "__array_interface__", None) is None or not hasattr(what, "tobytes") or what.dtype.hasobject:
            return False
        self._say("array", what.dtype.str, what.dtype.descr, what.shape)
        self._hash.update(memoryview(what).cast("B") if what.flags.c_contiguous and what.size and what.dtype.kind not in "MmV" else what.tobytes())
        return True

    def _add_reduced(self, what: Any) -> None:
        reduce = copyreg.dispatch_table.get(type(what))
        reduced = reduce(what) if reduce else what.__reduce_ex__(4)
        if isinstance(reduced, str):
            return self._say("global", type(what).__module__, reduced)
        self._say("object", type(what).__module__, type(what).__qualname__)
        for i, part in enumerate(reduced):
            if i > 2 and part is not None:
                part = [*part]
            self.add(part)


def _alone(what: Any) -> str:
    hasher = _Hasher()
    hasher.add(what)
    return hasher.digest()


@functools.lru_cache(1000)
def _words_of(code: types.CodeType) -> tuple[Any, ...]:
    return "code", code.co_name, code.co_argcount, code.co_varnames, code.co_names, code.co_code.hex()


@functools.lru_cache(1000)
def _globals_of(code: types.CodeType) -> tuple[str, ...]:
    import dis

    names = {one.argval for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.update(_globals_of(constant))
    return tuple(sorted(names))
