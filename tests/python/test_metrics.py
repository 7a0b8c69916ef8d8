"""pergpu.report(): whole lines, in order, each once, whatever becomes of the process."""
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time

import pergpu
import pytest
from pergpu import _metrics


@pytest.fixture(autouse=True)
def metrics(tmp_path, monkeypatch):
    """The lines of the metrics file so far."""
    path = tmp_path / "metrics.jsonl"
    monkeypatch.setenv("PERGPU_METRICS", str(path))
    yield lambda: [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    pergpu.flush()


def program(code, **options):
    return subprocess.Popen([sys.executable, "-c", "import os, pergpu, sys, threading, time\n" + code], **options)


def until(happened, seconds=60):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_is_reported_is_there_soon_and_in_order(metrics):
    for step in range(1000):
        pergpu.report(step=step, loss=step / 7)
    until(lambda: len(metrics()) == 1000)
    assert metrics() == [{"step": step, "loss": step / 7} for step in range(1000)]


def test_names_that_are_none_of_python_and_texts(metrics):
    pergpu.report({"val/loss": 0.5, "step": 1}, step=2, phase="é\n\ud800")
    pergpu.report()
    pergpu.flush()
    assert metrics() == [{"val/loss": 0.5, "step": 2, "phase": "é\n?"}, {}]


def test_numbers_of_numpy_and_of_tensors_are_numbers(metrics):
    numpy = pytest.importorskip("numpy")

    class Tensor:
        def item(self):
            return 0.25

    pergpu.report(a=numpy.float32(0.5), b=numpy.int64(3), c=numpy.array([[2.0]]), d=Tensor(), e=numpy.bool_(True))
    pergpu.flush()
    assert metrics() == [{"a": 0.5, "b": 3, "c": 2.0, "d": 0.25, "e": True}]
    with pytest.raises(TypeError, match="report: loss is not a single number"):
        pergpu.report(loss=numpy.zeros(2))


def test_what_is_no_number_is_refused_by_its_name(metrics):
    for wrong in ([1], {"a": 1}, object(), 1j, None):
        with pytest.raises(TypeError, match="report: loss is .*expected a number or a string"):
            pergpu.report(step=1, loss=wrong)
    with pytest.raises(TypeError, match="names must be strings, not 3"):
        pergpu.report({3: 1})
    pergpu.flush()
    assert metrics() == []


def test_numbers_that_json_has_not_are_texts_that_float_reads(metrics):
    pergpu.report(a=math.nan, b=math.inf, c=-math.inf)
    pergpu.flush()
    (line,) = metrics()
    assert line == {"a": "nan", "b": "inf", "c": "-inf"}
    assert math.isnan(float(line["a"])) and float(line["c"]) == -math.inf


def test_threads_lose_nothing(metrics):
    def work(name):
        for i in range(500):
            pergpu.report(name=name, i=i)
            if i % 50 == 0:
                pergpu.flush()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pergpu.flush()
    for n in range(8):
        assert [line["i"] for line in metrics() if line["name"] == n] == list(range(500))


def test_the_end_of_the_program_writes_what_is_left(metrics):
    for end in ("", "sys.exit(0)", "pergpu.flush(); os._exit(0)"):
        before = len(metrics())
        assert program(f"pergpu.report(step=1)\n{end}").wait(60) == 0
        assert len(metrics()) == before + 1, end


def test_what_is_reported_while_the_interpreter_ends_is_written(metrics):
    early = "import atexit, sys\natexit.register(lambda: sys.modules['pergpu'].report(at='exit'))\n"
    text = early + """
import os, threading, pergpu
class Run:
    def __del__(self):
        pergpu.report(at="del")
run = Run()
"""
    for begin, lines in (("", ["exit", "del"]), ("pergpu.report(at='begin')\n", ["begin", "exit", "del"])):
        before = len(metrics())
        subprocess.run([sys.executable, "-c", text + begin], check=True, timeout=60)
        assert [line["at"] for line in metrics()[before:]] == lines


def test_a_handler_that_ends_the_program_loses_and_doubles_nothing(metrics):
    text = """
import signal
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("begun", flush=True)
n = 0
while True:
    for _ in range(50):
        n += 1
        pergpu.report(n=n)
    pergpu.flush()
    if n % 500 == 0:
        print(n, flush=True)
"""
    for turn in range(5):
        before = len(metrics())
        process = program(text, stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            if line.strip() == str(500 * (turn + 1)):
                process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 7
        process.stdout.close()
        lines = [line["n"] for line in metrics()[before:]]
        assert lines == list(range(1, len(lines) + 1)) and len(lines) >= 500 * (turn + 1)


def test_a_handler_may_report_and_flush_in_the_middle_of_both(metrics):
    text = """
import signal
def handler(*_):
    pergpu.report(of="handler")
    pergpu.flush()
    signal.setitimer(signal.ITIMER_REAL, 0.0005)
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.0005)
for n in range(3000):
    pergpu.report(n=n)
    if n % 3 == 0:
        pergpu.flush()
signal.setitimer(signal.ITIMER_REAL, 0)
"""
    assert program(text).wait(100) == 0
    assert [line["n"] for line in metrics() if "n" in line] == list(range(3000))


@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_lose_nothing(metrics, way, tmp_path):
    path = tmp_path / "main.py"
    path.write_text(f"""
import multiprocessing, pergpu
def work(n):
    pergpu.report(n=n)
if __name__ == "__main__":
    pergpu.report(n=0)
    pool = [multiprocessing.get_context({way!r}).Process(target=work, args=(n,)) for n in (1, 2)]
    for one in pool:
        one.start()
    for one in pool:
        one.join()
""")
    subprocess.run([sys.executable, str(path)], check=True, timeout=60)
    assert sorted(line["n"] for line in metrics()) == [0, 1, 2]


def test_a_line_that_was_written_in_part_is_ended(metrics, monkeypatch, tmp_path):
    path = str(tmp_path / "metrics.jsonl")
    writer = _metrics._Writer()
    whole, room = os.write, [20]

    def full(fd, data):
        if not room[0]:
            raise OSError(28, "No space left on device")
        count = whole(fd, data[: room[0]])
        room[0] -= count
        return count

    monkeypatch.setattr(os, "write", full)
    monkeypatch.setattr(_metrics, "_MOST_UNWRITTEN", 5)
    for step, has_room in ((1, 20), (2, 0), (3, 1000)):
        room[0] = has_room
        writer._waiting.append({"step": step, "text": "x" * 20})
        writer._write()
    with open(path) as file:
        lines = file.read().splitlines()
    assert len(lines[0]) == 20 and json.loads(lines[1])["step"] == 3


def test_without_a_thread_each_line_is_written_at_once(metrics, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    writer = _metrics._Writer()
    for step in range(3):
        writer.add({"step": step})
        assert [line["step"] for line in metrics()] == list(range(step + 1))


def test_a_number_that_json_cannot_write_costs_its_line_and_no_other(metrics, capfd):
    pergpu.report(step=0)
    pergpu.report(n=7**6000)
    pergpu.report(step=1)
    pergpu.flush()
    steps = [line.get("step") for line in metrics()]
    assert [step for step in steps if step is not None] == [0, 1]


def test_a_killed_program_loses_a_moment_at_most(metrics):
    text = """
n = 0
while True:
    n += 1
    pergpu.report(n=n)
    if n % 100 == 0:
        print(n, flush=True)
        time.sleep(0.01)
"""
    process = program(text, stdout=subprocess.PIPE, text=True)
    reported = []
    for line in process.stdout:
        reported.append((time.monotonic(), int(line)))
        if len(reported) > 1 and reported[-1][0] - reported[0][0] > 1.5:
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    second_before = max(n for at, n in reported if at <= reported[-1][0] - 1)
    lines = [line["n"] for line in metrics()]
    assert lines == list(range(1, len(lines) + 1)) and len(lines) >= second_before


def test_a_fork_reports_its_own_lines_and_no_others(metrics):
    text = """
pergpu.report(of="parent")
pid = os.fork()
if pid == 0:
    pergpu.report(of="child")
    sys.exit(0)
os.waitpid(pid, 0)
"""
    assert program(text).wait(60) == 0
    assert sorted(line["of"] for line in metrics()) == ["child", "parent"]


def test_outside_of_a_job_it_is_checked_and_goes_nowhere(metrics, monkeypatch):
    monkeypatch.delenv("PERGPU_METRICS")
    pergpu.report(step=1)
    pergpu.flush()
    with pytest.raises(TypeError):
        pergpu.report(step=[])
    assert metrics() == []


def test_a_file_that_cannot_be_written_is_told_once_and_ends_nothing(tmp_path):
    env = {**os.environ, "PERGPU_METRICS": str(tmp_path / "no" / "folder.jsonl")}
    text = "for i in range(3):\n  pergpu.report(i=i)\n  pergpu.flush()"
    process = program(text, env=env, stderr=subprocess.PIPE, text=True)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert said == f"pergpu.report: {tmp_path}/no/folder.jsonl: No such file or directory; metrics may be lost\n"
