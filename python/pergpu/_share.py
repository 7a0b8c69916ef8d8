"""Finds the compiled part of the package if it is not in this folder.

A wheel has _share.abi3.so in this folder, which Python prefers: then this module isn't read.  In a checkout,
and in an installation by CMake, the compiled part is in the folder of the program `pergpu`, so each build
folder has a separate one.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

from . import __version__
from ._program import program


def _places() -> list[str]:
    try:
        folder = os.path.dirname(os.path.realpath(program()))
    except FileNotFoundError:
        return []
    return [folder + "/_share.abi3.so", os.path.dirname(folder) + "/lib/pergpu/_share.abi3.so"]


def _load() -> ModuleType:
    places = _places()
    for path in places:
        if os.path.exists(path):
            break
    else:
        raise ImportError(
            "the compiled part of pergpu is missing (looked for "
            + (" and ".join(places) or "the program `pergpu`, which would be in its folder")
            + "): run `pip install --force-reinstall pergpu`, or build it again with Python's headers (python3-dev)",
            name=__name__,
        )
    spec = spec_from_file_location(__name__, path, loader=ExtensionFileLoader(__name__, path))
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    theirs: str = getattr(module, "__version__")
    if theirs != __version__:
        raise ImportError(f"this package is pergpu {__version__}, but {path} is from {theirs}", name=__name__, path=path)
    return module


sys.modules[__name__] = _load()
