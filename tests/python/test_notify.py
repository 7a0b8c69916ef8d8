"""ready(), status(), progress(), track(): lines to the socket of PERGPU_NOTIFY."""
import socket
import time

import pergpu
import pytest
from pergpu import _notify


def forget(monkeypatch):
    """Nothing was told of late."""
    monkeypatch.setattr(_notify, "_told_at", {"STATUS": -1.0, "PROGRESS": -1.0})


@pytest.fixture
def lines(tmp_path, monkeypatch):
    """Those that have come since the last look."""
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
        ours.bind(path)
        ours.setblocking(False)
        monkeypatch.setenv("PERGPU_NOTIFY", path)
        forget(monkeypatch)

        def come():
            found = []
            while True:
                try:
                    found.append(ours.recv(4096).decode())
                except BlockingIOError:
                    return found

        yield come


def test_lines_are_those_of_the_protocol(lines):
    pergpu.ready()
    pergpu.status("epoch 3\nof 9")
    pergpu.progress(3, 10)
    assert lines() == ["READY=1", "STATUS=epoch 3 of 9", "PROGRESS=3/10"]


@pytest.mark.parametrize("text, told", [("x" * 5000, "x" * 1017), ("é" * 5000, "é" * 508)])
def test_a_long_line_is_cut_between_letters(lines, text, told):
    pergpu.status(text)
    assert lines() == ["STATUS=" + told]


def test_words_of_every_batch_do_not_push_out_what_is_said_once(lines):
    for n in range(1000):
        pergpu.status(str(n))
    pergpu.ready()
    told = lines()
    assert told[0] == "STATUS=0" and told[-1] == "READY=1" and len(told) < 12


def test_progress_of_every_batch_is_told_a_few_times_and_its_end_always(lines, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    for n in range(1, 1001):
        now[0] += 0.001
        pergpu.progress(n, 1000)
    told = lines()
    assert told[0] == "PROGRESS=1/1000" and told[-1] == "PROGRESS=1000/1000" and len(told) <= 7


def test_large_numbers_and_fractions_are_whole(lines, monkeypatch):
    for n, total, text in ((123456789, 200000000, "123456789/200000000"), (0.5, 2.5, "0.5/2.5"), (7, None, "7"), (12345678, None, "12345678")):
        forget(monkeypatch)
        pergpu.progress(n, total)
        assert lines() == ["PROGRESS=" + text]


def test_track_gives_the_items_and_tells_of_them(lines):
    assert list(pergpu.track("abc")) == ["a", "b", "c"]
    told = lines()
    assert told[0] == "PROGRESS=0/3" and told[-1] == "PROGRESS=3/3"
    assert list(pergpu.track(iter("ab"), total=2)) == ["a", "b"]
    assert lines()[-1] == "PROGRESS=2/2"
    assert list(pergpu.track(iter("ab"))) == ["a", "b"], "of unknown length"


def test_whom_nobody_listens_to_does_not_fail(tmp_path, monkeypatch):
    for path in (str(tmp_path / "gone"), "x" * 500, ""):
        monkeypatch.setenv("PERGPU_NOTIFY", path)
        pergpu.ready()
        pergpu.status("text")
    monkeypatch.delenv("PERGPU_NOTIFY")
    pergpu.progress(1, 2)
