"""Runs the program `pergpu` from Python."""

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
    """`pergpu` refused or failed; the message is its error text.

    `code` is its exit code: 2 an error in the request, 3 no coordinator can be reached,
    4 the name doesn't exist (docs/commands.md).
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
    """Its stdout.  `given`: its stdin; `env`: its whole environment, None: this process's.
    CommandFailed: the exit code is not in `good`.

    Ctrl-C reaches the command if the main thread runs it, and not if another thread does.
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
    """The same, for a command with --json."""
    return json.loads(ask([*words, "--json"], given, good, folder, env))


def follow_json(words: Sequence[str], given: str = "", folder: Path | None = None) -> Any:
    """Runs a command to its end, shows its messages on this process's output, and returns its stdout.

    The command handles Ctrl-C (docs/commands.md).  Only if it ends because of Ctrl-C, KeyboardInterrupt is
    raised here.  CommandFailed: it did not start.
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
            why = "".join(said) or f"pergpu {words[0]} ended with {code}; its messages show why"
            raise CommandFailed(words[0], code, why)
        answer.seek(0)
        return json.load(answer)


def _show(lines: IO[str] | None, said: deque[str]) -> None:
    for line in lines or ():
        said.append(line)
        print(line, end="", file=sys.stderr, flush=True)


def _is_terminal() -> bool:
    """Whether this process's messages go to the same terminal as a child's would."""
    try:
        return sys.stderr.fileno() == 2 and sys.stderr.isatty()
    except (OSError, ValueError, AttributeError):  # a notebook, a test
        return False
