"""`pergpu` as a program that is asked from Python."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from ._program import program


class CommandFailed(RuntimeError):
    """`pergpu` has refused or failed; its words are the message.

    `code` is its exit code: 2 a mistake in what was asked for, 3 no coordinator can be reached,
    4 nothing of that name (docs/commands.md).
    """

    __module__ = "pergpu"  # where people know it from

    def __init__(self, command: str, code: int, said: str) -> None:
        super().__init__(said.strip() or f"pergpu {command} ended with {code}")
        self.code = code
        self._made_of = (command, code, said)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._made_of


def ask(
    words: Sequence[str], given: str = "", good: Sequence[int] = (0,), folder: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> str:  # fmt: skip
    """What it prints.  `given`: its standard input; `env`: its whole environment, None: ours.
    CommandFailed: the exit code is not in `good`.

    Ctrl-C reaches it where it does the main thread, and not where another one works for later.
    """
    done = subprocess.run(
        [program(), *words],
        input=given,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=threading.current_thread() is not threading.main_thread(),
    )
    if done.returncode not in good:
        raise CommandFailed(words[0], done.returncode, done.stderr)
    return done.stdout


def ask_json(
    words: Sequence[str], given: str = "", good: Sequence[int] = (0,), folder: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Any:  # fmt: skip
    """The same, of a command with --json."""
    return json.loads(ask([*words, "--json"], given, good, folder, env))


def follow_json(words: Sequence[str], given: str = "", folder: Path | None = None) -> Any:
    """Runs a command to its end, shows what it says on our own output, and gives what it prints.

    Ctrl-C is its own to answer (docs/commands.md): only when it has ended by that the
    KeyboardInterrupt comes here.  CommandFailed: it did not begin.
    """
    shows_itself = _is_terminal()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as question, tempfile.TemporaryFile() as answer:
        question.write(given)
        question.seek(0)
        process = subprocess.Popen(
            [program(), *words, "--json"],
            cwd=folder,
            stdin=question,
            stdout=answer,
            stderr=None if shows_itself else subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
        said: deque[str] = deque(maxlen=50)
        with process:
            while process.returncode is None:
                try:
                    _show(process.stderr, said)
                    process.wait()
                except KeyboardInterrupt:
                    continue
        code = process.returncode
        if code in (130, -signal.SIGINT):
            raise KeyboardInterrupt
        if code not in (0, 1):
            why = "".join(said) or f"pergpu {words[0]} ended with {code}; what it has said tells why"
            raise CommandFailed(words[0], code, why)
        answer.seek(0)
        return json.load(answer)


def _show(lines: IO[str] | None, said: deque[str]) -> None:
    for line in lines or ():
        said.append(line)
        print(line, end="", file=sys.stderr, flush=True)


def _is_terminal() -> bool:
    """Whether what this program says goes to the terminal that a child would have, too."""
    try:
        return sys.stderr.fileno() == 2 and sys.stderr.isatty()
    except (OSError, ValueError, AttributeError):  # a notebook, a test
        return False
