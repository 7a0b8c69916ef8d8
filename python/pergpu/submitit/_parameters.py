"""Translates submitit's parameters to keys of a step.

Programs that move here from a cluster keep their parameters.  Slurm parameters that make sense on one machine are
used.  Parameters that choose among machines are ignored with a warning.  Parameters without which the job would
do something else are refused.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Mapping
from typing import Any

_NUMBER = (int, float)

# What a parameter has to be.
_GENERIC: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "timeout_min": _NUMBER,
    "mem_gb": _NUMBER,
    "nodes": (int,),
    "cpus_per_task": (int,),
    "gpus_per_node": (int,),
    "tasks_per_node": (int,),
    "stderr_to_stdout": (bool,),
}
_SPECIFIC: dict[str, tuple[type, ...]] = {
    "array_parallelism": (int,),
    "signal_delay_s": _NUMBER,
}
_TYPES = {**_GENERIC, **_SPECIFIC}

_OF_SLURM = {  # by another name
    "time": "timeout_min",
    "job_name": "name",
    "num_gpus": "gpus_per_node",
    "gpus_per_task": "gpus_per_node",
    "ntasks_per_node": "tasks_per_node",
}
_IGNORED = (
    "account comment constraint exclude exclusive mail_type mail_user nodelist partition qos srun_args use_srun "
    "wckey additional_parameters"
).split()
_REFUSED = {
    "cpus_per_gpu": "use cpus_per_task",
    "dependency": "a sweep of pergpu has `needs`; here call result() of the first job before the second is submitted",
    "gres": "use gpus_per_node",
    "mem_per_cpu": "say mem_gb",
    "mem_per_gpu": "say mem_gb",
    "setup": "a job starts in the environment of the program that submits it; put the rest into the function",
    "teardown": "put it into the function, in a `finally`",
}
_KEYS = (  # of a step, to be named as pergpu_KEY; docs/sweep-file.md
    "breaker cpus env env_pass expect failures gpu_memory gpus grace grow idle_timeout limits max_parallel "
    "max_starting memory metrics priority retries signal snapshot stall timeout weight"
).split()
_OF_EXECUTOR = ["lanes"]  # of pergpu.Executor

STEP_KEYS = frozenset([*_KEYS, *_OF_EXECUTOR])
KEYS = STEP_KEYS | {*_SPECIFIC}
"""The parameters with the prefix `pergpu_`, in addition to the generic names."""


def names_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The given parameters, by the names for keys_of().

    NameError: there is no such parameter.  ValueError: pergpu doesn't support it.  TypeError: it has
    another type.
    """
    kept: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:  # as in submitit: not set
            continue
        whose, _, own = name.partition("_")
        if name in _GENERIC:
            kept.setdefault(name, value)
        elif whose == "pergpu" and (own in KEYS or own in _GENERIC):
            kept[own] = value
        elif whose in ("slurm", "local"):
            _take_from_slurm(kept, name, own, value)
        else:
            raise _unknown(name)
    for name, value in kept.items():
        expected = _TYPES.get(name)
        if expected and (not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected)):
            raise TypeError(f"parameter {name} must be of type {expected[-1].__name__}, not {value!r}")
    for name in ("nodes", "tasks_per_node"):
        if kept.get(name, 1) != 1:
            raise ValueError(
                f"{name}={kept[name]}: a job of pergpu is one process on this machine; for several "
                "processes in a job start them in the function (torch.multiprocessing, torchrun)"
            )
    return kept


def _take_from_slurm(kept: dict[str, Any], name: str, own: str, value: Any) -> None:
    own = _OF_SLURM.get(own, own)
    if own in _TYPES:
        kept[own] = value
    elif own == "mem":
        kept["mem_gb"] = _gigabytes(value)
    elif own in _IGNORED:
        warnings.warn(f"{name}={value!r} is ignored: there is only one machine", stacklevel=4)
    elif own in _REFUSED:
        raise ValueError(f"pergpu does not support {name}: {_REFUSED[own]}")
    else:
        raise _unknown(name)


def _unknown(name: str) -> NameError:
    slurm = [*_GENERIC, *_SPECIFIC, *_OF_SLURM, *_IGNORED, *_REFUSED, "mem"]
    known = [*_GENERIC, *(f"slurm_{one}" for one in slurm), *(f"pergpu_{one}" for one in sorted(KEYS))]
    near = difflib.get_close_matches(name, known, 1)
    guess = f"; did you mean {near[0]}?" if near else ""
    return NameError(
        f"there is no parameter {name}{guess} (expected one of {', '.join(_GENERIC)}, or one with the "
        f"prefix slurm_… or pergpu_…, see docs/submitit.md)"
    )


def _gigabytes(text: Any) -> float:
    """Converts Slurm's forms: "32G", "32000" (MB), "500MB"."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*([KMGT]?)B?\s*", str(text), re.IGNORECASE)
    if not found:
        raise ValueError(f'slurm_mem must be a size like "32G", not {text!r}')
    return float(found[1]) * 1024.0 ** ("KMGT".index(found[2].upper() or "M") - 2)


def keys_of(kept: Mapping[str, Any], signal: str = "") -> dict[str, Any]:
    """The arguments of pergpu.Executor for the result of names_of().  `signal`: its name, if the job gets
    a signal before its end."""
    keys: dict[str, Any] = {name: kept[name] for name in (*_KEYS, *_OF_EXECUTOR) if name in kept}
    keys.setdefault("gpus", kept.get("gpus_per_node", 0))
    if "timeout_min" in kept:
        keys.setdefault("timeout", _duration(60 * kept["timeout_min"]))
    if "mem_gb" in kept:
        keys.setdefault("memory", f"{round(kept['mem_gb'] * 1024)}MiB")
    if "cpus_per_task" in kept:
        keys.setdefault("cpus", kept["cpus_per_task"])
    if "array_parallelism" in kept:
        keys["max_workers"] = kept["array_parallelism"]
    if signal and "signal" not in keys:
        keys["signal"] = f"{signal}@{_duration(_signal_ahead(kept))}"
    return keys


def _signal_ahead(kept: Mapping[str, Any]) -> float:
    """Seconds: the requested time, else 90 as with Slurm, but at most a part of the job's time."""
    if "signal_delay_s" in kept:
        return float(kept["signal_delay_s"])
    return float(min(90, 60 * kept.get("timeout_min", 60) / 4))


def _duration(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms"
