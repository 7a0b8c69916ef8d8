"""tqdm's bars as a job's progress: `from pergpu.tqdm import tqdm, trange`.

In a job, `top`, `show` and the page display the outermost bar as progress and text.  Nothing is drawn, since a
bar makes a log unreadable.  Outside of a job the bars are tqdm's own (`tqdm.auto`).  Needs tqdm.
"""

from __future__ import annotations

import io
from typing import Any

from tqdm.auto import tqdm as plain
from tqdm.std import tqdm as _Bar

from ._job import in_job
from ._notify import progress, status

__all__ = ["tqdm", "trange"]


class _Nowhere(io.TextIOBase):
    def write(self, text: str) -> int:
        return len(text)


class Told(_Bar):
    """A bar that is reported instead of drawn."""

    def __init__(self, *args: Any, **named: Any) -> None:
        if len(args) > 4:
            args = (*args[:4], _Nowhere(), *args[5:])
        else:
            named["file"] = _Nowhere()
        if named.get("disable") is None:
            named["disable"] = False  # by None it would be off, because this is no terminal
        super().__init__(*args, **named)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        if getattr(self, "pos", 0) != 0:
            return  # within another bar
        progress(self.n, self.total)
        now = self.format_dict
        rate = now["rate"]
        if not rate and now["elapsed"] > 0:  # at its end: the mean
            rate = (now["n"] - now["initial"]) / now["elapsed"]
        words = [self.desc.rstrip(": ") if self.desc else "", self.postfix or ""]
        if rate:
            words.append(f"{rate:.3g} {self.unit}/s" if rate >= 1 else f"{1 / rate:.3g} s/{self.unit}")
        status(", ".join(filter(None, words)))


tqdm: Any = Told if in_job() else plain


def trange(*args: int, **named: Any) -> Any:
    """Like tqdm.trange()."""
    return tqdm(range(*args), **named)
