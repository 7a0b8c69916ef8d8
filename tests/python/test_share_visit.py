"""A coordinator that is not there, or talks nonsense, costs nobody their data."""
import array
import json
import os
import socket
import struct
import threading
import warnings

import pytest

share = pytest.importorskip("pergpu.share", reason="the compiled part of the package is not built")
from pergpu.share import _dataset, _meeting, _visit  # noqa: E402


def answer(text, length=None):
    return struct.pack("<IB", len(text) if length is None else length, ord("a")) + text


def says(**fields):
    return answer(json.dumps(fields).encode())


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Where a coordinator of this test listens."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("PERGPU_SHARE", str(tmp_path / "share.sock"))
    monkeypatch.setattr(_visit, "_PATIENCE_S", 0.2)
    monkeypatch.setattr(_meeting, "_UNTIL_THERE_IS_ANOTHER_S", 0.2)
    monkeypatch.setattr(_dataset, "_seen", {})
    monkeypatch.setattr(_dataset, "_kept", set())
    return str(tmp_path / "share.sock")


class Coordinator:
    """Gives each connection these bytes, and these descriptors with them, for its first request."""

    def __init__(self, path, bytes_=None, fds=(), stays=False):
        self.asked = []
        self._left = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._run, args=(bytes_, fds, stays))
        self._thread.start()

    def _run(self, bytes_, fds, stays):
        while True:
            connection, _ = self._listener.accept()
            with connection:
                request = connection.recv(65536)
                if request == b"end":
                    return
                self.asked.append(json.loads(request[5:]))
                if bytes_:
                    socket.send_fds(connection, [bytes_], list(fds))
                if stays:
                    self._left.append(connection.dup())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(self._listener.getsockname())
            last.send(b"end")
        self._thread.join()
        self._listener.close()
        for connection in self._left:
            connection.close()


KEY = f"squares of {os.getpid()}"


def squares():
    return array.array("q", (i * i for i in range(100)))


def descriptors():
    return set(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(
    "bytes_, stays, why",
    [
        (None, False, "closed the connection"),
        (None, True, "timed out"),
        (b"\0", False, "closed the connection"),
        (answer(b"hello"), False, "unreadable answer"),
        (answer(b"\xff"), False, "unreadable answer"),
        (answer(b"[]"), False, "unexpected answer"),
        (answer(b"[" * 60000), False, "unreadable answer"),
        (answer(b"{}"), False, "unexpected answer"),
        (answer(b"", 1 << 31), False, "2147483648 bytes"),
        (says(**{"is": "here"}), False, "unexpected answer"),
        (says(**{"is": "perhaps"}), False, "unexpected answer"),
        (says(**{"is": "no", "why": "it is full"}), False, "it is full"),
        (says(**{"is": "wrong", "why": "malformed"}), False, "malformed"),
    ],
)
def test_what_it_should_not_say_is_a_warning_and_the_data_is_there(place, bytes_, stays, why):
    with Coordinator(place, bytes_, stays=stays) as coordinator, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert memoryview(share.dataset(KEY, squares, keep=True))[9] == 81
    assert [one.category for one in caught] == [RuntimeWarning]
    assert why in str(caught[0].message) and repr(KEY) in str(caught[0].message)
    assert caught[0].filename == __file__
    asked = coordinator.asked[0]
    assert asked["op"] == "get" and asked["title"] == KEY and asked["keep"] is True and asked["scope"] == "user"


def test_of_a_file_the_line_that_asked_is_named_too(place, tmp_path):
    numpy = pytest.importorskip("numpy")
    numpy.save(tmp_path / "a.npy", numpy.arange(5))
    with pytest.warns(RuntimeWarning, match="a.npy") as caught:
        assert share.dataset(tmp_path / "a.npy", keep=True).numpy().tolist() == [0, 1, 2, 3, 4]
    assert caught[0].filename == __file__


def test_a_descriptor_of_something_else_is_not_taken(place):
    ends = os.pipe()
    before = descriptors()
    with Coordinator(place, says(**{"is": "here"}), fds=[ends[0]]):
        assert memoryview(share.dataset(KEY, squares))[9] == 81
    kept = {str(memory.fileno()) for memory in _dataset._seen.values()}
    assert descriptors() - before == kept
    for end in ends:
        os.close(end)


def test_without_one_nobody_is_warned_who_asked_for_nothing(place):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert memoryview(share.dataset(KEY, squares))[9] == 81


def test_who_asked_for_no_scope_asks_nobody(place, monkeypatch):
    from pergpu.share._meeting import meet

    def made(name):
        memory = share._share.Memory.create(name, 100)
        memory.seal()
        return memory

    with Coordinator(place) as coordinator:
        with_one = meet("test", "key", lambda memory: True, made)
        assert with_one.nbytes == 100
        with_one.close()
    assert coordinator.asked == []


def test_a_path_longer_than_an_address_is_reached(place, tmp_path, monkeypatch):
    deep = tmp_path / ("a" * 100) / ("b" * 100)
    deep.mkdir(parents=True)
    monkeypatch.setenv("PERGPU_SHARE", str(deep / "share.sock"))
    monkeypatch.chdir(deep)
    with Coordinator("share.sock", says(**{"is": "no", "why": "reached"})):
        with pytest.warns(RuntimeWarning, match="reached"):
            share.dataset(KEY, squares, keep=True)
