"""Sweeps written in Python: the same file, the same commands, the same folders."""

from __future__ import annotations

import difflib
import itertools
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from . import _toml
from ._program_calls import ask_json, follow_json
from ._results import AT_ONCE, Results, results, results_of

_OPTIONS = ("on", "lanes", "devices", "rerun", "only_new", "engine")  # of `pergpu run`


def grid(**lists: Iterable[Any]) -> list[dict[str, Any]]:
    """Returns every combination of these values, as rows for a Sweep; the last name changes fastest.

    >>> grid(lr=[0.1, 0.01], seed=range(2))[1]
    {'lr': 0.1, 'seed': 1}
    >>> [row for row in grid(a=[1, 2], b=[1, 2]) if row["a"] <= row["b"]]
    [{'a': 1, 'b': 1}, {'a': 1, 'b': 2}, {'a': 2, 'b': 2}]

    TypeError: an argument isn't a list of values.
    """
    for name, values in lists.items():
        if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
            raise TypeError(f"grid: {name} is {values!r}; expected a list of values, such as [{values!r}]")
    rows = itertools.product(*map(list, lists.values()))
    return [dict(zip(lists, row)) for row in rows]


class SweepFailed(RuntimeError):
    """Some jobs of a sweep have not succeeded.  `results` also has the successful ones."""

    __module__ = "pergpu"  # where people know it from

    def __init__(self, name: str, results: Results) -> None:
        failed = results.failed
        first = "; ".join(
            f"{job['run'] or '_once'}/{job['step']}: {job['reason'] or job['state']}"
            for job in [job for row in failed for job in row.jobs if job["state"] != "done"][:3]
        )
        super().__init__(f"sweep {name}: {len(failed)} of {len(results)} runs did not succeed: {first}")
        self.results = results
        self._made_of = (name, results)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._made_of


class Sweep:
    """Runs, and the steps for each of them.

        sweep = pergpu.Sweep(
            "thirteen",
            runs=pergpu.grid(method=["ddpm", "edm", "flow"], seed=range(4)),
            steps={
                "train": dict(command=["python3", "train.py", "--config", "{config}"], gpus=1, timeout="12h"),
                "evaluate": dict(command="python3 evaluate.py --model {train.out}/model.pt", needs=["train"]),
            },
        )
        best = sweep.run().best("fid")

    `steps` has the keys of the sweep file (docs/sweep-file.md), `defaults` the keys for all steps, and
    `settings` the other tables of a file: constants, exclude, limits, notify, slurm.  `runs` are rows, each
    a mapping; None: one run without parameters.  `out` is the root of the result folders, `folder` the base
    of relative paths, by default the current folder.  Errors in the sweep are reported when you submit it,
    all at once.  ValueError: `runs` is empty.
    """

    def __init__(
        self,
        name: str,
        *,
        steps: Mapping[str, Mapping[str, Any]],
        runs: Iterable[Mapping[str, Any]] | None = None,
        defaults: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        out: str | os.PathLike[str] = "",
        folder: str | os.PathLike[str] = ".",
    ) -> None:
        self.name = name
        self.steps = {step: dict(keys) for step, keys in steps.items()}
        self.runs = None if runs is None else [dict(row) for row in runs]
        self.defaults = dict(defaults or {})
        self.settings = dict(settings or {})
        self.out = os.fspath(out)
        self.folder = Path(folder)
        self._jobs: list[int] = []  # of it, when it was submitted here last
        if self.runs == []:
            raise ValueError(f"sweep {name}: `runs` is empty, so there is nothing to do")

    def __repr__(self) -> str:
        count = 1 if self.runs is None else len(self.runs)
        return f"<pergpu.Sweep {self.name}: {count} runs of {', '.join(self.steps)}>"

    def to_toml(self, path: str | os.PathLike[str] | None = None) -> str:
        """Returns the sweep file; with `path`, also writes it there.

        It is the same sweep: `pergpu run` of the file, in the same folder, finds finished runs done.
        None is `{ null = true }` there.  TypeError: a value that a sweep file can't hold, such as a
        set, or an integer of more than TOML's 64 bits (submit() and run() accept it).
        """
        lines = [f"name = {_toml.value(self.name, 'name')}"]
        if self.out:
            lines.append(f"out = {_toml.value(self.out, 'out')}")
        lines += _keys("", {k: v for k, v in self.settings.items() if not isinstance(v, Mapping)})
        if self.runs is not None:
            rows = (f"  {_toml.value(row, f'runs[{i}]', null=True)},\n" for i, row in enumerate(self.runs))
            lines.append(f"runs = [\n{''.join(rows)}]")
        tables = {name: table for name, table in self.settings.items() if isinstance(table, Mapping)}
        if self.defaults:
            tables["defaults"] = self.defaults
        for name, table in tables.items():
            lines += _keys(_toml.key(name), table)
        for step, keys in self.steps.items():
            lines += _keys(f"steps.{_toml.key(step)}", keys)
        text = "\n".join(lines) + "\n"
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def _given(self) -> str:
        """The sweep file that is submitted."""
        try:
            return self.to_toml()
        except _toml.IntegerTooLarge:
            whole: dict[str, Any] = {"name": self.name, **({"out": self.out} if self.out else {}), **self.settings}
            whole |= {"defaults": self.defaults} if self.defaults else {}
            whole |= {} if self.runs is None else {"runs": self.runs}
            return json.dumps(_toml.plain({**whole, "steps": self.steps}, "sweep", null=True))

    def submit(self, **options: Any) -> dict[str, Any]:
        """Submits the sweep to the queue; returns the output of `pergpu submit --json`.

        Options are those of `pergpu submit`: on="slurm", lanes=8, devices="0,2", rerun=True,
        only_new=True, engine="fake".  CommandFailed: the sweep has an error, and nothing was started.
        """
        reply = dict(ask_json(["submit", "-", *_words(options)], self._given(), folder=self.folder))
        self._jobs = reply["jobs"]
        return reply

    def run(self, *, check: bool = False, **options: Any) -> Results:
        """Submits the sweep and shows its state until it has ended; returns its results().

        Ctrl-C works as in `pergpu run`: queued jobs are held, running ones are waited for, and
        KeyboardInterrupt is raised at the end.  Options as for submit().  CommandFailed: the sweep has
        an error, and nothing was started.  With check=True, SweepFailed: a job has failed.
        """
        ended = follow_json(["run", "-", *_words(options)], self._given(), self.folder)
        self._jobs = [job["id"] for job in ended["jobs"]]
        found = self.results()
        if check and found.failed:
            raise SweepFailed(self.name, found)
        return found

    def wait(self) -> Results:
        """Waits until none of its jobs is queued or running; returns its results()."""
        names = [str(job) for job in self._jobs] or [self.name]
        for i in range(0, len(names), AT_ONCE):
            ask_json(["wait", *names[i : i + AT_ONCE]], good=(0, 1))
        return self.results()

    def results(self) -> Results:
        """Returns the current results, one row for each run: the runs of this program's last submit.  Before
        that, all runs known by the sweep's name."""
        return results_of(self._jobs) if self._jobs else results(self.name)


def _keys(table: str, keys: Mapping[str, Any]) -> list[str]:
    where = f"[{table}] " if table else ""
    may_be_none = table == "constants"  # its values are parameters
    lines = [f"{_toml.key(k)} = {_toml.value(v, f'{where}{k}', may_be_none)}" for k, v in keys.items()]
    return [f"\n[{table}]", *lines] if table else lines


def _words(options: Mapping[str, Any]) -> list[str]:
    words = []
    for name, value in options.items():
        if name not in _OPTIONS:
            near = difflib.get_close_matches(name, _OPTIONS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; the options are {', '.join(_OPTIONS)}"
            raise TypeError(f"no option {name!r}{hint}")
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, str(value)]
    return words
