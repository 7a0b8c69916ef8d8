"""The results of a sweep: one row for each run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ._program_calls import ask

if TYPE_CHECKING:
    import pandas

AT_ONCE = 5_000  # selectors in a command line
_BAD_FIRST = (
    *("failed", "timeout", "lost", "skipped", "cancelled", "held"),
    *("stopping", "running", "starting", "queued", "done"),
)


class Row(dict[str, Any]):
    """A run: its parameters and the newest values of its metrics, by name.

    A metric that several steps report, or that has the name of a parameter, is called "STEP.NAME".
    Any other metric has its plain name.
    """

    def __init__(self, jobs: list[dict[str, Any]], ambiguous: frozenset[str]) -> None:
        self.jobs = jobs
        """Its jobs, one for each step, as `pergpu export --jsonl` prints them."""
        first = jobs[0]
        self.index: int | None = first["index"]
        self.run: str = first["run"] or "_once"
        self.state: str = min((job["state"] for job in jobs), key=_BAD_FIRST.index)
        """The worst state of its jobs: "done" only if all are."""
        super().__init__(first.get("params") or {})
        for job in jobs:
            for name, value in _metrics(job).items():
                self[f"{job['step']}.{name}" if name in ambiguous else name] = value

    def out(self, step: str | None = None) -> str:
        """The folder of a step; without a name, of the only step.  KeyError: there is no such step."""
        for job in self.jobs:
            if step == job["step"] or (step is None and len(self.jobs) == 1):
                return str(job["out"])
        raise KeyError(f"run {self.run} has the steps {', '.join(job['step'] for job in self.jobs)}")


class Results(list[Row]):
    """The rows of a sweep, in the order of its runs."""

    @property
    def failed(self) -> list[Row]:
        """The rows with a job that hasn't succeeded (yet)."""
        return [row for row in self if row.state != "done"]

    def best(self, metric: str, mode: str = "min") -> Row:
        """Returns the row with the smallest value of a metric; mode="max": the largest.

        Only finished runs count, and only numbers, not NaN.  LookupError: there is none.
        """
        if mode not in ("min", "max"):
            raise ValueError(f"mode is {mode!r}; expected 'min' or 'max'")
        done = [row for row in self if row.state == "done"]
        rows = [row for row in done if _is_number(row.get(metric))]
        if not rows:
            has = sorted({name for row in done for name, value in row.items() if _is_number(value)})
            raise LookupError(
                f"no run that is done has a number {metric!r}; the reported numbers are: {', '.join(has) or 'none'}"
            )
        choose: Callable[..., Row] = min if mode == "min" else max
        return choose(rows, key=lambda row: row[metric])

    def frame(self) -> pandas.DataFrame:
        """The rows as a pandas DataFrame, by run; `index` and `state` are columns, unless a parameter
        or a metric has that name.  ImportError: pandas is not installed."""
        import pandas

        rows = [{"index": row.index, "state": row.state, **row} for row in self]
        return pandas.DataFrame(rows, index=pandas.Index([row.run for row in self], name="run"))


def results(sweep: str = "@") -> Results:
    """Returns the current results of a sweep, by its name; "@": the last submitted sweep.

    Steps that run once for the sweep get a separate row, the last one.  Rows and steps that were removed
    from the sweep file are left out.  CommandFailed: there is no such sweep.
    """
    return _rows([job for job in exported([sweep]) if job.get("listed", True)])


def results_of(jobs: list[int]) -> Results:
    """The same of these jobs."""
    found = []
    for i in range(0, len(jobs), AT_ONCE):
        found += exported([str(job) for job in jobs[i : i + AT_ONCE]])
    return _rows(found)


def exported(selectors: list[str], env: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """The jobs with these names, as `pergpu export --jsonl` prints them.  CommandFailed: there are none."""
    # Not splitlines(): a text of JSON may have other ends of lines in it.
    return [json.loads(line) for line in ask(["export", "--jsonl", *selectors], env=env).split("\n") if line]


def _rows(jobs: list[dict[str, Any]]) -> Results:
    by_run: dict[str, list[dict[str, Any]]] = {}
    for job in jobs:
        if not job.get("replaced"):
            by_run.setdefault(job["run"] or "", []).append(job)
    ambiguous = _ambiguous(jobs)
    once = by_run.pop("", None)
    rows = [Row(of_run, ambiguous) for of_run in by_run.values()]
    rows.sort(key=lambda row: -1 if row.index is None else row.index)
    return Results([*rows, *([Row(once, ambiguous)] if once else [])])


def _metrics(job: dict[str, Any]) -> dict[str, Any]:
    """Converts strings for numbers that JSON lacks back to numbers."""
    spelt = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
    return {
        name: spelt.get(value, value) if isinstance(value, str) else value
        for name, value in (job.get("last_metrics") or {}).items()
    }


def _ambiguous(jobs: Iterable[dict[str, Any]]) -> frozenset[str]:
    steps: dict[str, set[str]] = {}
    for job in jobs:
        for name in job.get("params") or {}:
            steps.setdefault(name, set()).update(("", "params"))
        for name in job.get("last_metrics") or {}:
            steps.setdefault(name, set()).add(job["step"])
    return frozenset(name for name, of in steps.items() if len(of) > 1)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
