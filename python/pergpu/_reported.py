"""The metrics that the jobs of a sweep have reported, from two sources that complete each other.

The metrics files have all values of all jobs, up to a quarter of a second behind.  The table in shared memory
(_table.py) has the newest values at once, from processes that called report(), as long as a job of the sweep
can run.  The table's value is the last one, unless something other than report() wrote to the file later.  The
best value is the better of both.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from . import _private
from ._job import NotAJob
from ._table import Slot, folder_of, own_folder, slots_of

_LIVE = ("starting", "running", "stopping")
_SPELT = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_LATER_NS = 1_000_000_000  # by what the file is written behind report(), and more
_PIECE = 1 << 20


class _At(NamedTuple):
    value: Any
    step: Any = None


class _Track:
    """One name: its last value, and its least and greatest numbers so far."""

    __slots__ = ("last", "least", "greatest")

    def __init__(self) -> None:
        self.last: _At | None = None
        self.least: _At | None = None
        self.greatest: _At | None = None

    def range(self, least: _At | None, greatest: _At | None) -> None:
        if least and (self.least is None or least.value < self.least.value):
            self.least = least
        if greatest and (self.greatest is None or greatest.value > self.greatest.value):
            self.greatest = greatest


_Tracks = dict[str, _Track]


class Reported(dict[str, Any]):
    """The metrics of one job, a dict: the newest value of each, even if the newest report lacks it."""

    __module__ = "pergpu"  # where people know it from

    def __init__(self, *, job: int, attempt: int, run: str, step: str, out: str, state: str | None, alive: bool,
                 params: dict[str, Any], tracks: _Tracks) -> None:  # fmt: skip
        super().__init__((name, track.last.value) for name, track in tracks.items() if track.last)
        self.job = job
        """The job's id."""
        self.attempt = attempt
        """The newest attempt; 0: it has not begun."""
        self.run = run
        """The name of the run's folder; "_once" for a step that runs once for the sweep."""
        self.step = step
        """The name of the step: "train"."""
        self.out = out
        """The job's folder."""
        self.state = state
        """As `pergpu ps` shows it; None: the program was not asked (files=False)."""
        self.alive = alive
        """Whether the job is running."""
        self.params = params
        """The parameters of the run."""
        self._tracks = tracks

    def last(self, name: str) -> tuple[Any, Any]:
        """Returns (value, step) of the newest report of a name; the step is None if none was reported with
        it.  KeyError: the name was never reported."""
        track = self._tracks[name]
        assert track.last
        return track.last.value, track.last.step

    def best(self, name: str, mode: str = "min") -> tuple[Any, Any] | None:
        """Returns (value, step) of the smallest number reported; mode="max": the largest.  None: its only
        number was NaN.  KeyError: the name was never reported."""
        track = self._tracks[name]
        found = track.least if _checked(mode) == "min" else track.greatest
        return (found.value, found.step) if found else None


@dataclass(frozen=True)
class Best:
    """The run with the best value of a metric."""

    __module__ = "pergpu"  # where people know it from

    run: str
    """The name of the run's folder."""
    params: dict[str, Any]
    out: str
    """The folder of the job that reported it."""
    value: Any
    at_step: Any
    """The `step` that was reported with the value; None: there was none."""
    alive: bool
    """Whether the job is running."""
    step: str
    """The name of the job's step: "train"."""
    job: int


def metrics(sweep: str | None = None, *, files: bool = True) -> list[Reported]:
    """Returns the newest metrics of each job of a sweep, in the order of the runs.

    `sweep`: its name, or "@" for the last submitted sweep.  Default: in a job, its own sweep; elsewhere,
    the last one.  files=False, in a job only: reads only shared memory, which takes less than a millisecond
    and starts no other process.  Then you get jobs that are running, or that ended recently.  Jobs that were
    replaced, or whose row was removed from the sweep file, are left out.

    CommandFailed: there is no such sweep.  NotAJob: files=False outside of a job.
    """
    own = own_folder() if sweep is None else None
    if not files:
        if own is None:
            words = "you named a sweep" if sweep is not None else "this process isn't a job"
            raise NotAJob(f"metrics(files=False) reads only the job's own sweep, but {words}")
        return _of_table(own)
    jobs = list(_jobs(own, sweep))
    slots = {folder: slots_of(folder) for folder in {folder_of(job["out"]) for job in jobs if job["out"]}}
    jobs.sort(key=lambda job: (job["index"] is None, job["index"] or 0))
    return [_of_job(job, slots.get(folder_of(job["out"]), [])) for job in jobs]


def best(metric: str, mode: str = "min", sweep: str | None = None, *, at: str = "best", step: str | None = None,
         files: bool = True) -> Best:  # fmt: skip
    """Returns the run with the smallest value of a metric; mode="max": the largest.  NaN is never best.

    at="best" compares all values ever reported, at="last" the newest ones.  `step`: only jobs of this step.
    Running jobs count as well as ended ones, and failed jobs count, too: check `alive`.  `sweep`, `files`: as
    for metrics().

    LookupError: no job has reported a number of that name.  ValueError: jobs of several steps have, and
    `step` doesn't select one; or `mode` or `at` is unknown.
    """
    _checked(mode)
    if at not in ("best", "last"):
        raise ValueError(f"at is {at!r}; expected 'best' or 'last'")
    jobs = [job for job in metrics(sweep, files=files) if step in (None, job.step)]
    found: list[tuple[Any, Any, Reported]] = []
    for job in jobs:
        pair = None
        if metric in job:
            pair = job.best(metric, mode) if at == "best" else job.last(metric)
        if pair and _is_number(pair[0]) and not math.isnan(pair[0]):
            found.append((*pair, job))
    if not found:
        names = sorted({name for job in jobs for name, value in job.items() if _is_number(value)})
        whose = "no job" if step is None else f"no job of the step {step!r}"
        raise LookupError(f"{whose} has reported a number {metric!r}; the reported numbers are: {', '.join(names) or 'none'}")
    steps = sorted({job.step for _, _, job in found})
    if len(steps) > 1:
        raise ValueError(f"{metric!r} is reported by the steps {', '.join(steps)}: choose one, such as step={steps[0]!r}")
    choose: Callable[..., tuple[Any, Any, Reported]] = min if mode == "min" else max
    value, at_step, job = choose(found, key=lambda one: one[0])
    return Best(job.run, job.params, job.out, value, at_step, job.alive, job.step, job.job)


def _jobs(own: str | None, sweep: str | None) -> Iterator[dict[str, Any]]:
    """The jobs as the program reports them; `own`: the folder of this process's sweep."""
    from ._results import exported

    if own is None:
        found = exported([sweep or "@"])
    else:
        found = exported([os.environ["PERGPU_SWEEP"]], _env_outside())
    for job in found:
        is_ours = own is None or not job["out"] or folder_of(job["out"]) == own
        if is_ours and not job.get("replaced") and job.get("listed", True):
            yield job


def _env_outside() -> dict[str, str]:
    """A job's environment as it is outside of the job, if its home is known."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PERGPU_")}
    home = os.path.dirname(os.environ.get("PERGPU_ATTEMPT_ID", ""))
    return {**env, "PERGPU_HOME": home} if home else env


def _of_job(job: dict[str, Any], slots: list[Slot]) -> Reported:
    file = _of_file(job["metrics"])
    tracks = {name: _copy(track) for name, track in file.tracks.items()}
    if not tracks:  # what was written for TensorBoard
        _add(tracks, job.get("last_metrics") or {})
    _merge(tracks, [slot for slot in slots if slot.job == job["id"]], file.written_ns)
    return Reported(
        job=job["id"], attempt=job["attempt"], run=job["run"] or "_once", step=job["step"], out=job["out"],
        state=job["state"], alive=job["state"] in _LIVE, params=job.get("params") or {}, tracks=tracks,
    )  # fmt: skip


def _of_table(folder: str) -> list[Reported]:
    by_job: dict[int, list[Slot]] = {}
    for slot in slots_of(folder):
        by_job.setdefault(slot.job, []).append(slot)
    found = []
    for number, slots in by_job.items():
        tracks: _Tracks = {}
        _merge(tracks, slots, 0)
        run, _, step = slots[0].place.partition("/")
        out = f"{folder}/{slots[0].place}"
        found.append(Reported(
            job=number, attempt=max(slot.attempt for slot in slots), run=run, step=step, out=out, state=None,
            alive=any(slot.alive for slot in slots), params=_params(out), tracks=tracks,
        ))  # fmt: skip
    return sorted(found, key=lambda one: (one.run, one.step))


def _params(out: str) -> dict[str, Any]:
    try:
        with open(_private.open_record(out + "/config.json"), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _merge(tracks: _Tracks, slots: list[Slot], written_ns: int) -> None:
    for slot in sorted(slots, key=lambda one: one.reported_ns):
        for name, (last, least, greatest) in slot.values.items():
            track = tracks.setdefault(name, _Track())
            if track.last is None or written_ns < slot.reported_ns + _LATER_NS:
                track.last = _At(*last)
            track.range(least and _At(*least), greatest and _At(*greatest))


def _add(tracks: _Tracks, values: dict[str, Any]) -> None:
    """A line of a metrics file."""
    step = values.get("step")
    step = step if _is_number(step) else None
    for name, value in values.items():
        if isinstance(value, str):
            value = _SPELT.get(value, value)
        elif not isinstance(value, (bool, int, float)):
            continue
        track = tracks.get(name)
        if track is None:
            track = tracks[name] = _Track()
        track.last = one = _At(value, step)
        if _is_number(value) and not math.isnan(value):
            track.range(one, one)


def _copy(track: _Track) -> _Track:
    copy = _Track()
    copy.last, copy.least, copy.greatest = track.last, track.least, track.greatest
    return copy


class _File:
    """A metrics file up to the point that was read; the next read continues there."""

    def __init__(self) -> None:
        self.tracks: _Tracks = {}
        self.written_ns = 0
        self._which: tuple[int, int] | None = None
        self._read = 0

    def read(self, path: str) -> None:
        try:
            with open(_private.open_by_path(path, os.O_RDONLY), "rb") as file:
                status = os.fstat(file.fileno())
                which = (status.st_dev, status.st_ino)
                if which != self._which or status.st_size < self._read:
                    self.tracks, self._which, self._read = {}, which, 0
                self.written_ns = status.st_mtime_ns
                file.seek(self._read)
                rest = b""
                while piece := file.read(_PIECE):
                    *lines, rest = (rest + piece).split(b"\n")
                    for line in lines:
                        self._line(line)
                    self._read += len(piece)
        except OSError:
            self.tracks, self._which, self._read = {}, None, 0
            return
        # It may be whole already.  Then it counts, and counts again when its end has come.
        self._line(rest)
        self._read -= len(rest)

    def _line(self, line: bytes) -> None:
        try:
            values = json.loads(line)
        except ValueError:
            return
        if isinstance(values, dict):
            _add(self.tracks, values)


_files: dict[str, _File] = {}


def _of_file(path: str) -> _File:
    file = _files.setdefault(path, _File())
    file.read(path)
    return file


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _checked(mode: str) -> str:
    if mode not in ("min", "max"):
        raise ValueError(f"mode is {mode!r}; expected 'min' or 'max'")
    return mode
