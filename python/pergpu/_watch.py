"""Shows the state of calls while you wait: a table that is updated in a notebook, lines elsewhere.

The table is HTML that IPython replaces in place; the notebook needs no extension, and a saved notebook has the
table's last state.  Elsewhere, each call that starts or ends gets a line, as in a log.  No results are read
for that.
"""

from __future__ import annotations

import concurrent.futures
import html
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ._future import Future, JobFailed
from ._program_calls import CommandFailed, ask

_MOST_ROWS = 50
_MOST_ASKED = 1_000  # jobs, in a command line
_ORDER = ("running", "failed", "cancelled", "queued", "done")  # in which calls are shown, where not all can be
_COLOURS = {"running": "#1a73e8", "failed": "#c5221f", "cancelled": "#80868b", "queued": "#80868b", "done": "#188038"}


def watch(futures: Iterable[Future], every: float = 1.0, timeout: float | None = None) -> None:
    """Shows the state of calls until all have ended, or for `timeout` seconds.

    In a notebook: a table with the newest metrics, replaced every `every` seconds.  Elsewhere: a line for each
    call that starts or ends.  You can interrupt it without affecting the calls.
    """
    calls = list(futures)
    end = None if timeout is None else time.monotonic() + timeout
    shown: _Table | _Lines = _Table() if _in_notebook() else _Lines()
    metrics = _Metrics()
    while True:
        over = all(call.done() for call in calls)
        shown.show([_Row(call) for call in calls], metrics)
        left = every if end is None else min(every, end - time.monotonic())
        if over or left <= 0:
            return
        waiting = [call for call in calls if not call.done()]
        concurrent.futures.wait(waiting, left, concurrent.futures.ALL_COMPLETED)


class _Row:
    """The state of a call."""

    def __init__(self, call: Future) -> None:
        outcome = call.outcome or {}
        self.call = call
        self.what = call.what
        self.job: int | None = outcome.get("id")
        self.lane = str(outcome.get("lane") or "")
        self.warm = outcome.get("step") == "worker"  # its job has other calls, too
        self.duration: float | None = None if self.warm else outcome.get("duration_s")
        self.words = ", ".join(filter(None, (outcome.get("progress"), outcome.get("status"))))
        self.state = "running" if call.running() else "queued"
        if call.done():
            self.words = ""
            # The future's own exception() would read the result, too.
            error = None if call.cancelled() else concurrent.futures.Future.exception(call, 0)
            self.state = "cancelled" if call.cancelled() else "done" if error is None else "failed"
            if isinstance(error, JobFailed):
                self.words = f"{error.state}: {error.reason}"
            elif error is not None:
                self.words = f"{type(error).__name__}: {error}".partition("\n")[0]


class _Metrics:
    """The newest values that the calls have reported."""

    def __init__(self) -> None:
        self._known: dict[Future, dict[str, Any]] = {}
        self._last: set[Future] = set()  # those that have nothing to add

    def of(self, rows: Sequence[_Row]) -> list[dict[str, Any]]:
        asked = {row.job: row for row in rows if row.job is not None and row.call not in self._last}
        asked = {job: row for job, row in asked.items() if row.state == "running" or not row.warm}
        asked = dict([*asked.items()][:_MOST_ASKED])
        if asked:
            try:
                told = ask(["export", "--jsonl", *map(str, asked)]).split("\n")
            except (CommandFailed, OSError):
                told = []  # there will be a next time
            for job in map(json.loads, filter(None, told)):
                self._known[asked[job["id"]].call] = job.get("last_metrics") or {}
            self._last.update(row.call for row in asked.values() if told and row.state not in ("running", "queued"))
        return [self._known.get(row.call, {}) for row in rows]


class _Lines:
    """A line for what is new."""

    def __init__(self) -> None:
        self._said: dict[Future, str] = {}

    def show(self, rows: Sequence[_Row], metrics: _Metrics) -> None:
        new = [row for row in rows if self._said.get(row.call, "queued") != row.state]
        for row, values in zip(new, metrics.of(new)):
            self._said[row.call] = row.state
            ended = row.state != "running"
            words = [row.state]
            if ended and row.duration is not None:
                words[0] += f" in {row.duration:.1f} s"
            elif not ended and row.lane:
                words[0] += f" on {row.lane}"
            words += filter(None, (row.words, _of_metrics(values) if ended else ""))
            print(f"{time.strftime('%H:%M:%S')} {row.what}: {', '.join(words)}", flush=True)


class _Table:
    """One output of the cell, replaced."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, rows: Sequence[_Row], metrics: _Metrics) -> None:
        from IPython.display import HTML, display

        few = _most_telling(rows)
        page = HTML(_page(few, metrics.of(few), Counter(row.state for row in rows)))
        if self._handle is None:
            self._handle = display(page, display_id=True)
        else:
            self._handle.update(page)


def _most_telling(rows: Sequence[_Row]) -> list[_Row]:
    """In the order of the calls; if there are too many, the first ones of each state in turn."""
    if len(rows) <= _MOST_ROWS:
        return [*rows]
    best = sorted(range(len(rows)), key=lambda i: (_ORDER.index(rows[i].state), i))[:_MOST_ROWS]
    return [rows[i] for i in sorted(best)]


def _page(rows: Sequence[_Row], metrics: Sequence[dict[str, Any]], states: Counter[str]) -> str:
    total = sum(states.values())
    counts = ", ".join(f"{states[state]} {state}" for state in reversed(_ORDER) if states[state])
    more = f", {len(rows)} shown" if len(rows) < total else ""
    head = "".join(f'<th style="text-align:left">{name}</th>' for name in ("call", "state", "", "time", "", "metrics"))
    lines = [f"<div>{total} calls: {counts}{more}</div><table><thead><tr>{head}</tr></thead><tbody>"]
    for row, values in zip(rows, metrics):
        state = f'<span style="color:{_COLOURS[row.state]}">{row.state}</span>'
        seconds = "" if row.duration is None else f"{row.duration:.1f} s"
        texts = [html.escape(text) for text in (row.what, row.lane, seconds, row.words, _of_metrics(values))]
        cells = [texts[0], state, *texts[1:]]
        lines.append("<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in cells) + "</tr>")
    return "".join(lines) + "</tbody></table>"


def _of_metrics(values: dict[str, Any]) -> str:
    return " ".join(f"{name}={value:.4g}" if type(value) is float else f"{name}={value}" for name, value in values.items())


def _in_notebook() -> bool:
    """Whether a kernel runs this, and not a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")
