"""Calls as pickles: functions that can't be imported go by value, and errors name the variable that can't be sent.

Definitions of the main module go by value.  In the other process, the globals of its functions are the names
of `__main__` there (_main_module.py).  In a child of multiprocessing, or in a call with main="run", that
module is called `__mp_main__`.  With main="run" the other process runs the main module itself, and everything
in it goes by name.
"""

from __future__ import annotations

import importlib
import io
import pickle
import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, ForwardRef

import cloudpickle

from . import _by_value, _main_module, _tensors
from ._payload import Buffers

Pickled = tuple[bytes, list[memoryview]]

_NAME = re.compile(r"[^\W\d]\w*")
_STANDARD: Any = getattr(sys, "stdlib_module_names", ("collections", "dataclasses", "datetime", "decimal", "enum", "pathlib", "types", "typing"))
_SIMPLE = frozenset((type(None), bool, int, float, str))
_modules_by_value: Any = getattr(cloudpickle.cloudpickle, "_PICKLE_BY_VALUE_MODULES", ())


class _OnGpu(Exception):
    """A tensor in the memory of a GPU."""


class _GlobalsOfMain(dict[str, Any]):
    """Stands for the globals of the main module, as cloudpickle collects them.  It is never empty for it."""


class _Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
    def __init__(self, file: io.BytesIO, buffers: Buffers, run_main: bool, around: bool = True) -> None:
        super().__init__(file, 5, buffer_callback=buffers.take)
        self._main = sys.modules["__main__"]
        self._name_of_main = _main_module.name_of(self._main)
        self._run_main = run_main
        self._goes_by_value = None if run_main else self._name_of_main
        if self._goes_by_value == "__mp_main__":
            cloudpickle.register_pickle_by_value(self._main)  # as it does with `__main__`
        self.globals_ref[id(self._main.__dict__)] = _GlobalsOfMain(main=True)
        self._of_main: dict[str, Any] = {}  # functions and classes that went by value
        self._around = around
        self.has_more = False
        """Whether there are objects that only `around` sends: outer classes of sent classes, and names in annotations."""

    def dump_all(self, what: Any) -> None:
        self.dump(what)
        names = self._of_main
        count = 0
        while count < len(names):  # a class may bring along others
            more = dict([*names.items()][count:])
            count += len(more)
            self.dump(more)

    def _bring_outer(self, name: str) -> None:
        """Sends the outer class, through which pickle finds a class in a class."""
        if self._around:
            self.has_more = True
            self._of_main[name] = getattr(self._main, name)

    def _bring_annotated(self, obj: Any) -> None:
        """Sends the names in string annotations: typing.get_type_hints() looks for them in the module."""
        try:
            annotations = vars(obj).get("__annotations__") if isinstance(obj, type) else getattr(obj, "__annotations__", None)
            if not annotations:
                return
            known = vars(self._main)
            for annotation in annotations.values():
                for name in () if type(annotation) is type else _names_in(annotation):
                    if name in known and name not in self._of_main and _is_light(known[name]):
                        self.has_more = True
                        self._of_main[name] = known[name]
        except Exception:  # whatever annotations raise: they are of no use for the call itself
            return

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if kind is _GlobalsOfMain:
            return vars, (self._main,)
        if obj is self._main:
            return importlib.import_module, (self._name_of_main,)
        if kind is types.CodeType:
            return _with_file_name(obj, self.dispatch_table[types.CodeType](obj))
        if isinstance(obj, (type, types.FunctionType, _by_value.Cached)) and obj.__module__ == self._name_of_main:
            if kind is types.FunctionType:  # a module that was run by multiprocessing has copies of them
                self.globals_ref.setdefault(id(obj.__globals__), _GlobalsOfMain(main=True))
            name = obj.__qualname__
            if "." not in name:
                if getattr(self._main, name, None) is obj:
                    if self._run_main:
                        return name
                    self._of_main[name] = obj
            elif (self._run_main or name.partition(".")[0] not in self._of_main) and _by_value.find(self._main, name) is obj:
                if self._run_main:
                    return name
                self._bring_outer(name.partition(".")[0])
            if self._around and not self._run_main:
                self._bring_annotated(obj)
        reduced = _by_value.reduced(obj, self._goes_by_value)
        if reduced is not None:
            return reduced
        if kind.__module__.partition(".")[0] == "torch":
            if getattr(obj, "is_cuda", False) is True:
                raise _OnGpu
            reduced = _tensors.reduced(obj)
            if reduced is not None:
                return reduced
        if kind.__name__ == "Array" and "pergpu.share" in sys.modules:
            from .share import Array, _sent

            if kind is Array:
                return _sent.by_reference(obj)
        if kind is io.TextIOWrapper and obj is not sys.stdout and obj is not sys.stderr:
            raise TypeError("cannot pickle an open file")  # cloudpickle would take its content along
        if isinstance(obj, types.ModuleType) and type(obj) is not types.ModuleType:
            name = getattr(obj, "__name__", "")  # such as torch.backends.cudnn
            if sys.modules.get(name) is obj:
                return importlib.import_module, (name,)
        reduced = super().reducer_override(obj)
        return _by_value.with_names(obj, reduced) if isinstance(obj, type) else reduced


def _with_file_name(code: types.CodeType, reduced: Any) -> Any:
    """Restores the file name that cloudpickle leaves out since 3.1.1, so that tracebacks have source lines."""
    make, parts = reduced
    return make, tuple(code.co_filename if type(part) is str and part == "<dynamic-code>" else part for part in parts)


def _names_in(annotation: Any) -> Iterator[str]:
    """The names in annotations that are strings, or contain strings."""
    if isinstance(annotation, str):
        yield from _NAME.findall(annotation)
    elif isinstance(annotation, ForwardRef):
        yield from _NAME.findall(annotation.__forward_arg__)
    else:
        for part in getattr(annotation, "__args__", None) or ():
            yield from _names_in(part)


def _is_light(annotation: Any) -> bool:
    """Whether it may be sent only for annotations: other packages are not imported for these."""
    parts = getattr(annotation, "__args__", None)
    if isinstance(parts, tuple):
        return all(isinstance(part, (str, int, list, type(None), type(Ellipsis))) or _is_light(part) for part in parts)
    if isinstance(annotation, types.ModuleType):
        module = annotation.__name__
    elif isinstance(annotation, (type, types.FunctionType)):
        module = annotation.__module__
    else:
        module = type(annotation).__module__
        return module in ("typing", "types")
    return module in _main_module.NAMES or module.partition(".")[0] in _STANDARD


def dump_call(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    more: tuple[Any, ...] = (),
    run_main: bool = False,
) -> Pickled:
    """The pickle that _call.py and _worker.py load; `more`: other objects to send, such as an initializer.

    pickle.PicklingError: a part can't be pickled, or is on a GPU; the message names it.
    """
    try:
        are_simple = _SIMPLE.issuperset(map(type, args)) and _SIMPLE.issuperset(map(type, kwargs.values()))
        if are_simple and not more and _is_by_name(function):
            return pickle.dumps((function, args, kwargs), 5), []  # the same bytes, in a quarter of the time
        return dump((function, args, kwargs, *more), run_main)
    except Exception as error:
        name = describe(function)
        for what, value in _named(function, args, kwargs, more):
            try:
                dump(value, run_main)
            except Exception as of_it:
                raise pickle.PicklingError(f"{what} of {name} {_words(of_it)}") from error
        raise pickle.PicklingError(f"the call of {name} {_words(error)}") from error


def _is_by_name(function: Any) -> bool:
    """Whether it's a plain function of a module that the other process imports, so cloudpickle leaves it to pickle."""
    if type(function) is not types.FunctionType or function.__module__ in _main_module.NAMES or _modules_by_value:
        return False
    return getattr(sys.modules.get(function.__module__), function.__qualname__, None) is function


def describe(function: Callable[..., Any]) -> str:
    """A name to show."""
    while hasattr(function, "func"):  # a functools.partial
        function = function.func
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return str(name).replace("<locals>.", "")


def _words(error: Exception) -> str:
    if isinstance(error, _OnGpu):
        return (
            "is, or holds, a tensor in GPU memory, which can't be sent to another process: "
            "create it in the function, or pass `.cpu()`"
        )
    return f"can't be sent to another process: {error}"


def dump(what: Any, run_main: bool = False) -> Pickled:
    """Two pickles, one after the other: `what`, and the names of the main module that are sent by value.
    Large buffers are kept outside.  Raises whatever pickling raises."""
    return dump_by(lambda file, buffers, around: _Pickler(file, buffers, run_main, around), what)


def dump_by(make: Callable[[io.BytesIO, Buffers, bool], _Pickler], what: Any) -> Pickled:
    """The same with another pickler."""
    for around in (True, False):
        buffers = Buffers()
        file = io.BytesIO()
        pickler = make(file, buffers, around)
        try:
            pickler.dump_all(what)
            break
        except Exception:
            if not pickler.has_more:
                raise  # otherwise it may be what was brought along, such as a class that holds a lock
    return file.getvalue(), buffers


def _named(
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    more: tuple[Any, ...],
) -> Iterator[tuple[str, Any]]:
    for i, value in enumerate(args):
        yield f"argument {i}", value
    for name, value in kwargs.items():
        yield f"argument `{name}`", value
    code = getattr(function, "__code__", None)
    if code is not None:
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            try:
                yield f"the enclosing variable `{name}`", cell.cell_contents
            except ValueError:  # it has no value yet
                continue
        for name in code.co_names:
            if name in function.__globals__:
                yield f"the global `{name}` in the body", function.__globals__[name]
    for name, value in getattr(getattr(function, "__self__", None), "__dict__", {}).items():
        yield f"`self.{name}`", value
    if more:
        yield "the initializer", more
