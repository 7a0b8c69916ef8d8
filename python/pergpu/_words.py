"""Translates the messages of `pergpu submit` from sweep files to Python arguments: without lines, options and steps."""

from __future__ import annotations

import re

_REPLACED = [
    # Lines of the file, and where in them.
    (r"(?m)^<stdin>:\d+:\d+: |^ *\d+ \|.*\n *\|.*\n?", ""),
    (r"\[steps\.\w+\] (?=(names|uses|limits|asks|needs|has)\b)", "Executor() "),
    (r" in \[steps\.\w+\]|\[steps\.\w+\]:? ", ""),
    (r"(?m)^pergpu: ", ""),
    (r"(?m)^step (call|worker):? (?=(asks|shares)\b)", r"a \1 "),
    (r"(?m)^(snapshot of )?step \w+: ", ""),
    (r"choose a folder with --out", "choose another `out`"),
    (r", or name GPUs with --devices", ""),
    # Sweeps that rows are added to.
    (r"(--add: )?the file lacks step \w+, which sweep (.*) has: .*", r"calls named '\2' already exist, from an executor with another `reuse`; choose another name"),
    (r"(--add: )?sweep (.*) has no step \w+: .*", r"calls named '\2' already exist, from an executor with another `reuse`; choose another name"),
    (r"(--add: )?`command` of step \w+ is not what sweep (.*) has, and .*", r"calls named '\2' already exist, from another Python or pergpu; choose another name"),
    (r"(--add: )?`(\w+)` of step \w+ is not what sweep (.*) has, and .*", r"calls named '\3' already exist, with another `\2`; choose another name"),
    (r"--add: ", ""),
    (r"(, or|;)? submit the whole file without --add", ""),
    (r"--lanes N", "lanes=N"),
    # Names.
    (r"^no sweep is called `(.*)`; (there|did)", r"no calls are named '\1'; \2"),
    (r"^no sweep is called `(.*)`", r"no calls are named '\1'"),
    (r"^`(.*)` names (\d+) sweeps; type the one you mean.*", r"calls named '\1' are in \2 folders; say which: attach('\1', out=…)"),
    (r"(?m)^  \S+@\d+, (submitted .*), results in (.*)", r'  out="\2": \1'),
    (r"a sweep can't be named (\"[^\n]*\"): ", r"name can't be \1: "),
    (r"it would look like an option", "it begins with -"),
    (r"@ means the last sweep on the command line", "it begins with @"),
    (r"a number means a job on the command line", "a number is the id of a job"),
    # Types and values of TOML.
    (r"\{ max = 2, on = \[\"exit\"\] \}", '{"max": 2, "on": ["exit"]}'),
    (r"\{ partition = \"gpu\", time = \"12h\" \}", '{"partition": "gpu", "time": "12h"}'),
    (r"\ba list of strings\b", "a list of str"),
    (r"`(\w+)\[\]` must", r"each of `\1` must"),
    (r"\ba table\b", "a dict"),
    (r"\ba string\b", "a str"),
    (r"\btruth value\b|\bboolean\b", "bool"),
    (r"not the (string|number) ", "not "),
    (r"\bnot true\b", "not True"),
    (r"\bnot false\b", "not False"),
    (r"\b(gpus|sharing|retries|timeout|memory|gpu_memory) = (\"[^\"]*\"|[\d.]+)", r"\1=\2"),
    # Arguments that have another name here.
    (r"\bmax_parallel\b", "max_workers"),
    (r"(uses `[^`]*`), which is not in \[limits\]", r"\1: limits are of sweep files, leave `uses` out"),
    (r"but the step has no `(\w+)` that could grow", r"but there is no `\1` that could grow"),
]  # fmt: skip


def in_python(words: str) -> str:
    """The same without what only a sweep file or a command line has.

    >>> in_python('<stdin>:3:5: `timeout` must be a duration, not the string "soon" in [steps.call]')
    '`timeout` must be a duration, not "soon"'
    """
    for pattern, text in _REPLACED:
        words = re.sub(pattern, text, words)
    return words.strip()
