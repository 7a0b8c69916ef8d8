"""Decides which calls are equal: the same function, code and arguments, in another run of a program.

A pickle can't decide that, since it depends on other objects in memory.  So the parts of a pickle are hashed:
values by type and content, arrays by their bytes, functions and classes of the program by their code and the
values that belong to it, everything else as it would be pickled.  If a part can't be compared, the whole call
can't: a wrong result is worse than a call that runs again.
"""

from __future__ import annotations

import copyreg
import enum
import functools
import hashlib
import os
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple

_PLAIN = (type(None), bool, int, float, complex, type(Ellipsis), type(NotImplemented))
_CACHED: Any = type(functools.lru_cache(len))
_ARRAYS = ("ndarray", "memmap", "matrix", "recarray")  # of numpy: those that have nothing but their values
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
_NOT_OF_A_CLASS = frozenset(
    ("__module__", "__doc__", "__dict__", "__weakref__", "__firstlineno__", "__static_attributes__", "_abc_impl")
    + ("__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__abstractmethods__")
)
_DYNAMIC = frozenset(("eval", "exec", "globals", "__import__", "import_module"))
_HEAP_TYPE = 1 << 9  # made by a class statement


class NotComparable(Exception):
    """`what`: the value that is bound to the function, if there is one."""

    def __init__(self, what: str = "", kind: type | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.kind = kind


def digest_of_call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], given: tuple[Any, ...] = ()
) -> str | None:
    """`given`: data that travels with the call.  None: a part of it can't be compared."""
    hasher = _Hasher()
    try:
        hasher.add((function, args, kwargs, given))
    except Exception:  # whatever the parts raise: then the call is none that was before
        return None
    return hasher.digest()


def digest_of_source(function: Callable[..., Any]) -> str:
    """Adds a function's code and the values that are bound to it, without global values and without its module's name.

    NotComparable: the message names the value.
    """
    hasher = _Hasher(with_globals=False)
    hasher.add_bound(getattr(function, "__qualname__", type(function).__qualname__), function)
    return hasher.digest()


class _Hasher:
    def __init__(self, with_globals: bool = True) -> None:
        self._hash = hashlib.blake2b(digest_size=20)
        self._with_globals = with_globals
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no id comes twice

    def digest(self) -> str:
        return self._hash.hexdigest()

    def _say(self, *words: object) -> None:
        for word in words:
            data = str(word).encode("utf-8", "surrogatepass")
            self._hash.update(b"%d:%s" % (len(data), data))

    def _alone(self, what: Any) -> str:
        hasher = _Hasher(self._with_globals)
        hasher.add(what)
        return hasher.digest()

    def add_bound(self, name: str, value: Any) -> None:
        """A value that belongs to a function."""
        try:
            self.add(value)
        except NotComparable as error:
            raise error if error.what else NotComparable(name, type(value)) from error
        except Exception as error:
            raise NotComparable(name, type(value)) from error

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
            self._say(kind.__name__, *sorted(self._alone(one) for one in what))
        elif kind in (dict, types.MappingProxyType):
            self._say(kind.__name__, len(what))
            for _, key in sorted((self._alone(key), key) for key in what):
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
            self.add_bound(f"`self` of {what.__qualname__}", what.__self__)
        elif isinstance(what, functools.partial):
            self._add_partial(what)
        elif isinstance(what, types.ModuleType):
            self._say("module", what.__name__)
            if _is_ours(what.__name__):  # nobody knows which of its names are used
                raise NotComparable
        elif isinstance(what, type):
            self._add_class(what)
        elif isinstance(what, enum.Enum):
            self._say("enum", what.name)
            self.add(kind)
            self._add_member(what)
        elif not self._add_descriptor(what) and not self._add_tensor(what) and not self._add_array(what):
            self._add_reduced(what)

    def _add_function(self, function: types.FunctionType) -> None:
        is_ours = _is_ours(function.__globals__.get("__name__"))
        self._say("function", function.__module__ if self._with_globals else "", function.__qualname__)
        if hasattr(function, "registry") and hasattr(function, "_clear_cache"):  # functools.singledispatch
            return self.add({**function.registry})
        code = function.__code__
        self.add(code)
        name = function.__qualname__
        for place, value in enumerate(function.__defaults__ or ()):
            self.add_bound(f"default {place + 1} of {name}", value)
        for key, value in sorted((function.__kwdefaults__ or {}).items()):
            self._say(key)
            self.add_bound(f"{key!r} of {name}", value)
        for key, cell in zip(code.co_freevars, function.__closure__ or ()):
            try:
                value = cell.cell_contents
            except ValueError:
                self._say("empty")
                continue
            self.add_bound(f"{key!r} of {name}", value)
        if is_ours or _is_ours(function.__module__):
            self._add_attributes(vars(function))
            if self._with_globals:
                self._say(_annotations_of(function))
        self._add_globals(function, is_ours)

    def _add_globals(self, function: types.FunctionType, is_ours: bool) -> None:
        names = _names_of(function.__code__)
        for name in names.of_globals:
            value = function.__globals__.get(name, _Hasher)
            if is_ours and name in _DYNAMIC and self._with_globals:
                raise NotComparable
            if value is _Hasher:
                continue
            wrapped = value.__wrapped__ if type(value) is _CACHED else value
            is_function = isinstance(wrapped, types.FunctionType) and wrapped.__module__ == function.__module__
            if not self._with_globals:
                if is_function:
                    self._add_attributes({name: value})
            elif is_ours and isinstance(value, types.ModuleType):
                if name in names.of_wholes and _is_ours(value.__name__):
                    raise NotComparable
                self._say(name)
                self._add_used(value, names)
            elif is_ours or is_function:
                self._say(name)
                self.add(value)
        if is_ours and self._with_globals:
            for name in names.of_imports:
                self._add_imported(name, function)

    def _add_used(self, module: types.ModuleType, names: _Names, of: tuple[types.ModuleType, ...] = ()) -> None:
        """Adds the parts of a program's module that the code mentions."""
        self._say("module", module.__name__)
        if module.__name__ == "importlib" and "import_module" in names.of_all:
            raise NotComparable
        if module in of or not _is_ours(module.__name__):
            return
        for name in names.of_all:
            value = vars(module).get(name, _Hasher)
            if value is not _Hasher:
                self._say(name)
                self._add_used(value, names, (*of, module)) if isinstance(value, types.ModuleType) else self.add(value)

    def _add_imported(self, name: str, function: types.FunctionType) -> None:
        """A module that the function imports itself."""
        package = function.__globals__.get("__package__")
        for full in (name, f"{package}.{name}") if package else (name,):
            parts = full.split(".")
            for end in range(1, len(parts) + 1):
                module = sys.modules.get(".".join(parts[:end]))
                if module is not None:
                    if "getattr" in _names_of(function.__code__).of_globals and _is_ours(module.__name__):
                        raise NotComparable
                    self._add_used(module, _names_of(function.__code__))
                elif not name or _place_of(parts[0]) == "program":
                    raise NotComparable

    def _add_partial(self, what: functools.partial[Any]) -> None:
        self._say("partial", type(what).__qualname__)
        self.add(what.func)
        name = getattr(what.func, "__qualname__", type(what.func).__qualname__)
        self._say(len(what.args))
        for place, value in enumerate(what.args):
            self.add_bound(f"argument {place + 1} of the partial of {name}", value)
        for key, value in sorted(what.keywords.items()):
            self._say(key)
            self.add_bound(f"{key!r} of the partial of {name}", value)
        if type(what) is not functools.partial:
            self.add(type(what))
        self._add_attributes(vars(what))

    def _add_class(self, what: type) -> None:
        is_ours = _is_ours(what.__module__) or _found(what.__module__, what.__qualname__) is not what
        self._say("class", "" if is_ours and not self._with_globals else what.__module__, what.__qualname__)
        if not is_ours or what.__module__ == "builtins" or not what.__flags__ & _HEAP_TYPE:
            return
        self.add(type(what))
        self.add(what.__bases__)
        self._add_attributes({"__annotations__": _annotations_of(what)})
        if isinstance(what, enum.EnumMeta):
            members: dict[str, enum.Enum] = dict(what.__members__)
            for name in members:
                self._say(name)
                self._add_member(members[name])
            made = {name: value for name, value in vars(what).items() if not _is_of_enum(what, name, value)}
            return self._add_attributes(made)
        self._add_attributes({name: value for name, value in vars(what).items() if name not in _NOT_OF_A_CLASS})

    def _add_member(self, member: enum.Enum) -> None:
        self.add(member.value)
        own = {name: value for name, value in vars(member).items() if not (name.startswith("_") and name.endswith("_"))}
        self._add_attributes(own)

    def _add_attributes(self, values: dict[str, Any]) -> None:
        self._say(len(values))
        for name, value in sorted(values.items()):
            self._say(name)
            if self._with_globals:
                self.add(value)
                continue
            # What can't be compared isn't bound to the function itself.
            seen, kept = dict(self._seen), len(self._kept)
            before = self._hash.copy()
            try:
                self.add(value)
            except Exception:
                self._seen, self._hash = seen, before
                del self._kept[kept:]
                self._say("?")

    def _add_descriptor(self, what: Any) -> bool:
        """Adds a class's descriptor, with the functions it calls."""
        parts: tuple[Any, ...]
        if isinstance(what, _SLOTS):
            parts = (what.__name__,)
        elif isinstance(what, (staticmethod, classmethod)):
            parts = (what.__func__,)
        elif isinstance(what, (property, types.DynamicClassAttribute)):
            parts = (what.fget, what.fset, what.fdel)
        elif isinstance(what, functools.cached_property):
            parts = (what.func, what.attrname)
        elif isinstance(what, functools.partialmethod):
            parts = (what.func, what.args, what.keywords)
        elif isinstance(what, functools.singledispatchmethod):
            parts = (what.dispatcher, what.func)
        else:
            return False
        self._say("descriptor")
        self.add(type(what))
        self.add(parts)
        if not isinstance(what, _SLOTS) and _is_ours(type(what).__module__):
            self.add(getattr(what, "__dict__", None))
        return True

    def _add_tensor(self, what: Any) -> bool:
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(what, getattr(torch, "Tensor", ())):
            return False
        kind = type(what)
        if kind is not torch.Tensor and kind is not torch.nn.Parameter:
            raise NotComparable
        dense = what.detach().cpu().contiguous()
        self._say("tensor", kind.__name__, what.dtype, tuple(what.shape), what.requires_grad, what.is_conj(), what.is_neg())
        self._hash.update(dense.reshape(-1).view(torch.uint8).numpy() if dense.numel() else b"")
        self.add({**vars(what)})
        return True

    def _add_array(self, what: Any) -> bool:
        """Of numpy."""
        numpy: Any = sys.modules.get("numpy")
        masked: Any = sys.modules.get("numpy.ma")
        if numpy is None or not isinstance(what, (getattr(numpy, "ndarray", ()), getattr(numpy, "generic", ()))):
            return False
        kind = type(what)
        if masked is not None and kind is masked.MaskedArray:
            self._say("masked", what.hardmask, what.mask is masked.nomask, what.baseclass)
            self.add((numpy.asarray(what.data), masked.getmaskarray(what), what.fill_value))
            return True
        if isinstance(what, numpy.generic):
            is_known = kind.__module__.partition(".")[0] == "numpy" and not what.dtype.hasobject
        else:
            is_known = any(kind is getattr(numpy, name, None) for name in _ARRAYS)
        if not is_known:
            raise NotComparable
        if what.dtype.hasobject:
            if kind is not numpy.ndarray:
                raise NotComparable
            return False
        flags = what.flags
        self._say("array", kind.__module__, kind.__name__, what.dtype.str, what.dtype.descr, what.shape, flags.fnc)
        is_whole = flags.c_contiguous and what.size and what.dtype.kind not in "MmV"
        self._hash.update(memoryview(what).cast("B") if is_whole else what.tobytes())
        return True

    def _add_reduced(self, what: Any) -> None:
        kind = type(what)
        reduce = copyreg.dispatch_table.get(kind)
        reduced = reduce(what) if reduce else what.__reduce_ex__(4)
        if isinstance(reduced, str):
            return self._add_global(what, reduced)
        self._say("object", "" if not self._with_globals and _is_ours(kind.__module__) else kind.__module__, kind.__qualname__)
        for i, part in enumerate(reduced):
            if i == 2 and type(part) is dict:
                self._say("state", len(part))
                for name, value in sorted(part.items()):
                    self._say(name)
                    self.add_bound(f"attribute {name!r} of {kind.__qualname__}", value)
                continue
            self.add([*part] if i in (3, 4) and part is not None else part)

    def _add_global(self, what: Any, name: str) -> None:
        """Adds an object that is pickled by its name."""
        kind = type(what)
        self._say("global", kind.__module__, name)
        if kind.__module__ == "typing":
            return
        if hasattr(what, "__wrapped__"):  # functools.lru_cache and similar ones
            parameters = getattr(what, "cache_parameters", None)
            self.add(parameters() if parameters else None)
            self.add(what.__wrapped__)
            own = {key: value for key, value in vars(what).items() if key not in ("__wrapped__", "cache_parameters")}
            return self._add_attributes(own)
        import pickle

        module = getattr(what, "__module__", None)
        whichmodule: Any = vars(pickle)["whichmodule"]
        module = module if isinstance(module, str) else whichmodule(what, name)
        if _is_ours(module):
            raise NotComparable
        self._say(module)


class _Names(NamedTuple):
    """The names that a code object mentions, including the functions in it."""

    of_globals: tuple[str, ...]
    of_wholes: frozenset[str]
    """Globals of which the code uses more than attributes."""
    of_imports: tuple[str, ...]
    of_all: tuple[str, ...]


@functools.lru_cache(1000)
def _words_of(code: types.CodeType) -> tuple[Any, ...]:
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    names = code.co_varnames, code.co_freevars, code.co_cellvars, code.co_names
    return "code", code.co_name, *counts, *names, code.co_code.hex(), getattr(code, "co_exceptiontable", b"").hex()


@functools.lru_cache(1000)
def _names_of(code: types.CodeType) -> _Names:
    import dis

    found, wholes, imports, every = set(), set(), set(), {*code.co_names}
    last = ""
    for one in dis.get_instructions(code):
        if last and one.opname not in ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR"):
            wholes.add(last)
        last = one.argval if one.opname in ("LOAD_GLOBAL", "LOAD_NAME") else ""
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            found.add(one.argval)
        elif one.opname == "IMPORT_NAME":
            imports.add(one.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _names_of(constant)
            found.update(inner.of_globals)
            wholes.update(inner.of_wholes)
            imports.update(inner.of_imports)
            every.update(inner.of_all)
    return _Names(tuple(sorted(found)), frozenset(wholes), tuple(sorted(imports)), tuple(sorted(every)))


def _annotations_of(what: Any) -> Any:
    if sys.version_info < (3, 14):
        return vars(what).get("__annotations__") if isinstance(what, type) else what.__annotations__
    import importlib

    annotations: Any = importlib.import_module("annotationlib")
    return annotations.get_annotations(what, format=annotations.Format.STRING)


def _is_of_enum(what: type, name: str, value: Any) -> bool:
    """Whether the enum module put this into a class."""
    if name in _NOT_OF_A_CLASS or isinstance(value, what) or name in vars(what).get("_member_map_", ()):
        return True
    is_reserved = name.startswith("_") and name.endswith("_")
    return is_reserved and not isinstance(value, (types.FunctionType, staticmethod, classmethod))


def _found(module: str, qualname: str) -> Any:
    found: Any = sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found


def _is_ours(module: Any) -> bool:
    """Whether a module belongs to the program: neither installed nor of Python."""
    if not isinstance(module, str):
        return True
    if module in ("__main__", "__mp_main__"):
        return True
    loaded = sys.modules.get(module)
    if loaded is not None:
        file = getattr(loaded, "__file__", None)
        if file is None and getattr(loaded, "__path__", None) is None and getattr(loaded, "__spec__", None) is not None:
            return False  # a part of the interpreter
        return not _is_installed(file) if isinstance(file, str) else file is None and module not in sys.builtin_module_names
    return _place_of(module.partition(".")[0]) != "installed"


@functools.lru_cache(1000)
def _place_of(name: str) -> str:
    """The origin of a top-level module: "program", "installed", or "" if there is none."""
    import importlib.util

    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return "program"
    if spec is None:
        return ""
    is_installed = spec.origin is not None and (spec.origin in ("built-in", "frozen") or _is_installed(spec.origin))
    return "installed" if is_installed else "program"


@functools.lru_cache(1000)
def _is_installed(file: str) -> bool:
    path = os.path.abspath(file)
    if f"{os.sep}site-packages{os.sep}" in path or f"{os.sep}dist-packages{os.sep}" in path:
        return True
    return path.startswith((os.path.dirname(os.path.abspath(os.__file__)) + os.sep, os.path.dirname(os.path.abspath(__file__)) + os.sep))
