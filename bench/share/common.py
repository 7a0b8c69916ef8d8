"""What the scripts of bench/share have in common: where pergpu is, processes that are timed, rows of a
table, and which peers this Python has.

A row is {"what", "unit", "ours", "peer", "theirs", "ratio", "aim", "limit"}: `ratio` is how many times
better we are, `aim` the least that it should be, `limit` the most that `ours` may be; None where there
is none.
"""
import argparse
import importlib
import json
import multiprocessing
import os
import pathlib
import platform
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FORK = multiprocessing.get_context("fork")
GIB = 1 << 30


def arguments(doc, seconds=1.0, turns=5):
    """Of a script: --json, --only, --turns, --seconds, --build."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--build", default=str(ROOT / "build/release"), help="folder of a release build with _share.abi3.so")
    parser.add_argument("--only", default="", help="names, with commas between them")
    parser.add_argument("--turns", type=int, default=turns, help="how often each is measured")
    parser.add_argument("--seconds", type=float, default=seconds, help="how long, each time")
    parser.add_argument("--json", action="store_true", help="one row a line")
    return parser


def parsed(parser):
    """The arguments; from now on pergpu can be imported."""
    args = parser.parse_args()
    os.environ["PERGPU_BIN"] = str(pathlib.Path(args.build).resolve() / "pergpu")
    sys.path.insert(0, str(ROOT / "python"))
    return args


def has(module):
    """Whether this Python can import it, whatever it needs itself."""
    try:
        importlib.import_module(module)
        return True
    except Exception:
        return False


def wanted(args, names):
    """Those of the names that --only asks for; all without it."""
    asked = {one for one in args.only.split(",") if one}
    unknown = asked - set(names)
    if unknown:
        raise SystemExit(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return [name for name in names if not asked or name in asked]


def in_process(function, *given):
    """Starts function(tell, *given) in a process of its own; what it told comes from .result()."""
    return _Process(function, given)


class _Process:
    def __init__(self, function, given):
        self._end, other = FORK.Pipe()
        self._process = FORK.Process(target=function, args=(other.send, *given))
        self._process.start()
        other.close()

    def result(self, seconds=120):
        if not self._end.poll(seconds):
            self._process.kill()
            raise SystemExit(f"nothing was heard of process {self._process.pid} for {seconds} s")
        told = self._end.recv()
        self._process.join(20)
        if self._process.is_alive():
            self._process.kill()
        return told


def start_tracker_quietly():
    """Python's tracker of shared memory prints an error for each block that two processes unregister."""
    from multiprocessing import resource_tracker

    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    resource_tracker.ensure_running()
    os.dup2(kept, 2)
    os.close(kept), os.close(nothing)


def proportional_bytes(pid="self"):
    """PSS: of pages that n processes have, each counts the n-th part."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        for line in file:
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    raise OSError("the kernel tells no PSS")


def median(values):
    """None of nothing."""
    return statistics.median(values) if values else None


def busy():
    """CPU seconds that all processes have taken so far, and the wall clock."""
    with open("/proc/stat") as file:
        words = file.readline().split()
    ticks = sum(int(words[i]) for i in (1, 2, 3, 6, 7, 8))
    return ticks / os.sysconf("SC_CLK_TCK"), time.monotonic()


def versions():
    found = [f"Python {platform.python_version()}"]
    for name in ("numpy", "torch", "spdl", "ray", "faster_fifo", "ffcv"):
        if has(name):
            version = getattr(sys.modules[name], "__version__", None)
            if version is None:
                from importlib import metadata

                version = metadata.version(name.replace("_", "-"))
            found.append(f"{name} {version}")
    return ", ".join(found)


def row(what, unit, ours, peer=None, theirs=None, ratio=None, aim=None, limit=None):
    """As it is told above."""
    return {"what": what, "unit": unit, "ours": ours, "peer": peer, "theirs": theirs, "ratio": ratio, "aim": aim, "limit": limit}


def missed(one):
    if one["aim"] is not None and (one["ratio"] is None or one["ratio"] < one["aim"]):
        return True
    return one["limit"] is not None and one["ours"] > one["limit"]


def shown(value):
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def table(rows):
    lines = [("what", "unit", "pergpu", "peer", "", "ratio", "aim")]
    for one in rows:
        aim = f">= {shown(one['aim'])}" if one["aim"] is not None else f"<= {shown(one['limit'])}" if one["limit"] is not None else ""
        aim += ": missed" if missed(one) else ""
        lines.append((one["what"], one["unit"], shown(one["ours"]), shown(one["theirs"]), one["peer"] or "", shown(one["ratio"]), aim))
    widths = [max(len(line[i]) for line in lines) for i in range(7)]
    left = {0, 1, 4, 6}
    return "\n".join("  ".join(word.ljust(w) if i in left else word.rjust(w) for i, (word, w) in enumerate(zip(line, widths))).rstrip() for line in lines)


def tell(args, rows, left_out=()):
    """Prints the rows; the exit status."""
    if args.json:
        for one in rows:
            print(json.dumps(one))
        if left_out:
            print(json.dumps({"left_out": list(left_out)}))
    else:
        print(table(rows))
        for one in left_out:
            print(f"left out: {one}")
    return 1 if any(missed(one) for one in rows) else 0
