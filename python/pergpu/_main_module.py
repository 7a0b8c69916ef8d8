"""The module `__main__` of a process that runs calls.

It stands for the main module of the program that submitted them.  It has that module's file, so that children
of multiprocessing read the script as they would in the program.  It has the names of the script that were
sent by value, so that pickle finds them.  With main="run" the script itself is run, as the module
`__mp_main__`.

Like _payload.py, it is loaded without the rest of the package.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAMES = ("__main__", "__mp_main__")  # the second one is multiprocessing's, in its children

_replaced: "list[Any]" = []  # keeps the module that this process began with


def of_program(run: bool) -> "dict[str, Any]":
    """The data about this program's main module that a process needs.

    ValueError: the main module should be run, and has neither a name nor a file.
    """
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    name = None if spec is None else spec.name
    file = getattr(main, "__file__", None)
    if file is not None:
        import os

        file = os.path.abspath(file)
        if not os.path.isfile(file):
            file = None
    if run and file is None:
        raise ValueError('main="run" needs a script or a module: this session has no file that another process could run')
    if not run and (file is None or not _is_guarded(file)):
        name = file = None
    package = getattr(main, "__package__", None)
    return {"name": name, "file": file, "package": package, "run": run, "called": name_of(main)}


def name_of(main: "Any") -> str:
    """The module name of its functions and classes."""
    return NAMES[getattr(main, "__name__", None) == NAMES[1]]


def _is_guarded(file: str) -> bool:
    """Whether a script may be read again: its work is under `if __name__ == "__main__":`.

    Children of multiprocessing read it.  Without that guard, they would do all its work again.
    """
    import re
    import tokenize

    try:
        with tokenize.open(file) as source:
            return re.search(r"^if\b.*\b__name__\b", source.read(), re.MULTILINE) is not None
    except (OSError, SyntaxError, UnicodeDecodeError):
        return False


def take_place(known: "dict[str, Any]") -> None:
    """Replaces this process's `__main__` by a module that stands for the program's."""
    if known["run"]:
        return _run(known)
    main: Any = type(sys)("__main__")
    main.__builtins__ = __builtins__
    main.__package__ = known["package"]
    if known["file"] is not None:
        main.__file__ = known["file"]
    if known["name"] is not None:
        spec: Any = type(sys.__spec__)
        main.__spec__ = spec(known["name"], None, origin=known["file"])
    _replaced.append(sys.modules["__main__"])
    sys.modules["__main__"] = sys.modules[known["called"]] = main


def _run(known: "dict[str, Any]") -> None:
    from multiprocessing import process, spawn

    _replaced.append(sys.modules["__main__"])
    sys.modules["__main__"] = type(sys)("__main__")
    this: Any = process.current_process()
    this._inheriting = True  # while it is read, nothing may be started
    try:
        data = {"init_main_from_name": known["name"]} if known["name"] else {"init_main_from_path": known["file"]}
        spawn.prepare(data)
    finally:
        this._inheriting = False

