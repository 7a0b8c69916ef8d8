"""`python -m pergpu …` is `pergpu …`."""

from __future__ import annotations

import os
import sys

from ._program import program


def main() -> None:
    path = program()
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
