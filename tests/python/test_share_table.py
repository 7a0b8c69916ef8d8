"""The table behind report(): there at once, whole, kept after a kill, seen by all of a sweep."""
import math
import os
import signal
import subprocess
import sys

import pergpu
import pytest
from pergpu import _table

_share = pytest.importorskip("pergpu._share", reason="the compiled part of the package is not built")


@pytest.fixture(autouse=True)
def sweep(tmp_path, monkeypatch):
    """The folder of a sweep, whose processes meet in a place of their own."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for name in ("PERGPU_JOB", "PERGPU_OUT", "PERGPU_METRICS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_table, "_own", {})
    monkeypatch.setattr(_table, "_memories", [])
    return tmp_path / "runs" / "thirteen"


class Job:
    """A process of a job that runs `code` and then waits until it is let go on."""

    def __init__(self, sweep, job, code, attempt=1):
        out = sweep / f"{job:02}-run" / "train"
        out.mkdir(parents=True, exist_ok=True)
        env = {
            **os.environ,
            "PERGPU_JOB": str(job),
            "PERGPU_ATTEMPT": str(attempt),
            "PERGPU_OUT": str(out),
            "PERGPU_METRICS": str(out / "metrics.jsonl"),
        }
        code = "import os, pergpu, signal, sys\n" + code + "\nprint(flush=True)\nsys.stdin.readline()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def is_there(self):
        assert self.process.stdout.readline() == "\n", self.process.wait()
        return self

    def ends(self):
        with self.process:
            self.process.stdin.close()
            return self.process.wait(60)

    def killed(self):
        self.process.kill()
        return self.ends()


def by_job(sweep):
    return {slot.job: slot for slot in _table.slots_of(str(sweep))}


def test_what_is_reported_is_there_when_report_returns(sweep):
    jobs = [Job(sweep, n, f"for s in range(3): pergpu.report(step=s, loss={n} / (s + 1), phase='warm')") for n in (1, 2)]
    for job in jobs:
        job.is_there()
    seen = by_job(sweep)
    assert seen[1].values == {"step": ((2, 2), (0, 0), (2, 2)), "loss": ((1 / 3, 2), (1 / 3, 2), (1.0, 0))}
    assert seen[2].place == "02-run/train" and seen[2].pid == jobs[1].process.pid
    assert seen[1].alive and seen[2].alive and seen[1].reports == 3
    assert [job.ends() for job in jobs] == [0, 0]
    assert by_job(sweep) == {}, "nobody has it any more"


def test_nothing_that_was_reported_is_lost_by_a_kill(sweep):
    keeper = Job(sweep, 1, "pergpu.report(x=0)").is_there()
    for attempt in range(1, 6):
        dying = Job(sweep, 2, f"""
for n in range(1, 1000):
    pergpu.report(n={attempt} * 1000 + n)
    if n == 100 * {attempt}:
        os.kill(os.getpid(), signal.SIGKILL)
""", attempt)  # fmt: skip
        assert dying.ends() == -signal.SIGKILL
        slot = by_job(sweep)[2]
        assert not slot.alive and slot.attempt == attempt
        assert slot.values["n"] == ((attempt * 1100, None), (1001, None), (attempt * 1100, None))
        assert slot.reports == sum(100 * one for one in range(1, attempt + 1))
    keeper.ends()


def test_the_table_goes_from_hand_to_hand(sweep):
    first = Job(sweep, 1, "pergpu.report(x=1)").is_there()
    second = Job(sweep, 2, "pergpu.report(x=2)").is_there()
    first.killed()
    third = Job(sweep, 3, "pergpu.report(x=3)").is_there()
    second.killed()
    assert {job: slot.alive for job, slot in by_job(sweep).items()} == {1: False, 2: False, 3: True}
    third.ends()


def test_other_sweeps_have_other_tables(sweep):
    one = Job(sweep, 1, "pergpu.report(x=1)").is_there()
    other = Job(sweep.parent / "other", 1, "pergpu.report(x=2)").is_there()
    assert by_job(sweep)[1].values["x"][0] == (1, None)
    assert by_job(sweep.parent / "other")[1].values["x"][0] == (2, None)
    one.ends(), other.ends()


def test_children_of_a_job_have_slots_of_their_own(sweep):
    job = Job(sweep, 1, """
pergpu.report(x=1)
child = os.fork()
if not child:
    pergpu.report(x=2)
    pergpu.flush()
    os._exit(0)
os.waitpid(child, 0)
pergpu.report(y=3)
""").is_there()  # fmt: skip
    slots = _table.slots_of(str(sweep))
    assert [(slot.job, slot.alive, {name: value[0][0] for name, value in slot.values.items()}) for slot in slots] == [
        (1, True, {"x": 1, "y": 3}),
        (1, False, {"x": 2}),
    ]
    job.ends()


def test_a_program_that_is_executed_anew_goes_on_in_its_slot(sweep):
    job = Job(sweep, 1, """
pergpu.report(x=int(os.environ.get("AGAIN", 0)))
pergpu.flush()
if "AGAIN" not in os.environ:
    os.environ["AGAIN"] = "1"
    keep = [os.dup(int(name)) for name in os.listdir("/proc/self/fd") if "memfd:pergpu" in link("/proc/self/fd/" + name)]
    os.set_inheritable(keep[0], True)
    os.execv(sys.executable, [sys.executable, "-c", PROGRAM])
""".replace("PROGRAM", "open('/proc/self/cmdline').read().split(chr(0))[2]").replace("link(", "os.path.realpath("))  # fmt: skip
    job.is_there()
    (slot,) = _table.slots_of(str(sweep))
    assert slot.values["x"] == ((1, None), (0, None), (1, None)) and slot.alive
    job.ends()


def test_where_there_can_be_no_table_the_file_has_everything(sweep, tmp_path):
    for hindrance in ("os.environ['XDG_RUNTIME_DIR'] = '/proc/none'", "sys.modules['pergpu._share'] = None"):
        job = Job(sweep, 1, hindrance + "\npergpu.report(x=1)").is_there()
        assert _table.slots_of(str(sweep)) == []
        assert job.ends() == 0
    assert (sweep / "01-run/train/metrics.jsonl").read_text() == '{"x": 1}\n' * 2


def test_outside_of_a_job_there_is_no_table(sweep, tmp_path, monkeypatch):
    monkeypatch.setenv("PERGPU_OUT", str(sweep / "a/train"))
    monkeypatch.setenv("PERGPU_METRICS", str(tmp_path / "metrics.jsonl"))
    assert _table.put_of_job() is None
    pergpu.report(x=1)
    pergpu.flush()
    assert _table.slots_of(str(sweep)) == []


def table(slots=2):
    memory = _share.Memory.create("metrics", _share.MetricsTable.bytes(slots))
    return _share.MetricsTable(memory.map("shared"), key="k")


def test_numbers_come_back_as_they_were(sweep):
    metrics = table()
    writer = metrics.writer(1, 1, "run/train")
    assert writer.put({"i": 3, "f": 3.0, "nan": math.nan, "big": 2**60, "inf": -math.inf, "t": "x", "b": True, "huge": 10**400})
    ((*_, place, values),) = metrics.read()
    assert place == "run/train" and set(values) == {"i", "f", "nan", "big", "inf"}
    assert [type(values[name][0][0]) for name in ("i", "f", "big")] == [int, float, float]
    assert math.isnan(values["nan"][0][0]) and values["nan"][1:] == (None, None)
    assert values["inf"][1] == (-math.inf, None)
    assert writer.put({"step": 2.5, "i": 4}) and metrics.read()[0][-1]["i"] == ((4, 2.5), (3, None), (4, 2.5))


def test_names_are_told_apart_however_they_are_made(sweep):
    metrics = table()
    writer = metrics.writer(1, 1, "run/train")
    for turn in range(3):
        writer.put({f"n/{i}é": turn * 100 + i for i in range(70)})  # 64 fit
        writer.put({"x" * 41: 1, "": 2})
    ((*_, values),) = metrics.read()
    assert {name: value[0][0] for name, value in values.items()} == {f"n/{i}é": 200 + i for i in range(64)}


def test_a_full_table_and_mistakes_are_told(sweep):
    metrics = table(1)
    writer = metrics.writer(1, 1, "run/train")
    with pytest.raises(MemoryError, match="all 1 slots of the metrics table are taken"):
        metrics.writer(2, 1, "other/train")
    with pytest.raises(ValueError, match="600 bytes; expected at most 512"):
        metrics.writer(2, 1, 600 * "x")
    with pytest.raises(TypeError, match="expected a dict"):
        writer.put([1])
    with pytest.raises(TypeError, match="3 is not a name; expected a string"):
        writer.put({3: 1})
    with pytest.raises(TypeError, match="use MetricsTable.writer"):
        _share.MetricsWriter()
    with pytest.raises(OSError, match="isn't a metrics table: wrong magic number"):
        _share.MetricsTable(bytearray(100_000))
    with pytest.raises(ValueError, match="100 bytes are too few for a metrics table"):
        _share.MetricsTable(bytearray(100), key="k")
    with pytest.raises(BufferError):
        _share.MetricsTable(bytes(100_000), key="k")
    writer.release()
    assert writer.put({"x": 1}) is False and metrics.read()[0][3] is False
    assert metrics.writer(2, 1, "other/train").put({"x": 1})
