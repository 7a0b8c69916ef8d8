"""`python -m pergpu …` is `pergpu …`."""

from __future__ import annotations

import os
import signal
import sys

from ._program import program


def main() -> None:
    path = program()
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python; execv would hand that on to jobs
        signal.signal(ignored, signal.SIG_DFL)
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
