"""Finds the program `pergpu`."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path


def program() -> str:
    """$PERGPU_BIN, else the program installed with this package, else the first in PATH.

    FileNotFoundError: no program found.
    """
    chosen = os.environ.get("PERGPU_BIN")
    if chosen:
        return chosen
    package = Path(__file__).resolve().parent
    schemes = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", "posix_user")]
    # pip install --target puts them beside the packages.
    places = [*map(Path, schemes), package.parent / "bin"]
    for place in places:
        path = place / "pergpu"
        if _is_of(package, place) and os.access(path, os.X_OK):
            return str(path)
    found = shutil.which("pergpu")
    if found:
        return found
    raise FileNotFoundError(
        "the program `pergpu` is neither in this package's installation nor in PATH; "
        "`pip install --force-reinstall pergpu` installs both"
    )


def _is_of(package: Path, scripts: Path) -> bool:
    """Both were installed below one folder."""
    root = scripts.resolve().parent
    return root in package.parents
