"""Files of calls and results: whole or refused, and large buffers without a second copy."""
import os
import pickle
import subprocess
import sys

import pytest

from pergpu import _payload
from pergpu._results_log import Reader, frame


def written(tmp_path, value, buffers=(), **head):
    path = tmp_path / "file"
    _payload.write(path, head, pickle.dumps(value, 5), buffers)
    return path


def test_what_was_written_is_read(tmp_path):
    found = _payload.Payload(written(tmp_path, {"a": [1, None]}, ok=True, words="ä"))
    assert found.head["ok"] is True and found.head["words"] == "ä" and found.load() == {"a": [1, None]}
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("size", [0, 1, 63, 64, _payload.MAPPED_FROM - 1, _payload.MAPPED_FROM, _payload.MAPPED_FROM + 4097])
def test_buffers_are_writable_and_the_file_does_not_change(tmp_path, size):
    data = [bytearray([i]) * size for i in range(3)]
    buffers = []
    pickled = pickle.dumps([pickle.PickleBuffer(one) for one in data], 5, buffer_callback=buffers.append)
    path = tmp_path / "file"
    _payload.write(path, {}, pickled, [one.raw() for one in buffers])
    before = path.read_bytes()
    for _ in range(2):
        loaded = _payload.Payload(path).load()
        assert [bytearray(one) for one in loaded] == data
        for one in map(memoryview, loaded):
            one[:1] = b"x"[: len(one)]
    assert path.read_bytes() == before


def test_what_is_cut_off_or_no_payload_is_refused(tmp_path):
    path = written(tmp_path, list(range(1000)), [memoryview(b"x" * 5000)])
    whole = path.read_bytes()
    for size in (0, 5, len(_payload.MAGIC), len(_payload.MAGIC) + 4, 40, 100, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(_payload.NotAPayload, match="file"):
            _payload.Payload(path)
    path.write_bytes(b"x" * len(whole))
    with pytest.raises(_payload.NotAPayload, match="does not begin like a payload"):
        _payload.Payload(path)
    with pytest.raises(FileNotFoundError):
        _payload.Payload(tmp_path / "nothing")


def test_what_others_may_have_written_is_not_read(tmp_path):
    mask = os.umask(0)
    try:
        path = written(tmp_path, "mine")
    finally:
        os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o644 and _payload.Payload(path).load() == "mine"
    known = _payload.Payload(path)
    for mode in (0o664, 0o646):
        path.chmod(mode)
        for read in (lambda: _payload.Payload(path), known.load):
            with pytest.raises(_payload.NotOurs, match=rf"file isn't read: others can write to it \(mode {mode:04o}\)"):
                read()
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(_payload.NotOurs, match="no regular file"):
        _payload.Payload(path)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be another user")
def test_what_belongs_to_another_user_is_not_read(tmp_path):
    path = written(tmp_path, "theirs", [memoryview(b"x" * 100)])
    os.chown(path, 61001, 61001)
    with pytest.raises(_payload.NotOurs, match="it belongs to uid 61001"):
        _payload.Payload(path)


def test_a_fresh_interpreter_reads_pickles_without_functools(tmp_path):
    code = """if True:
        import sys
        sys.path.insert(0, sys.argv[1])
        import _payload
        value = _payload.Payload(sys.argv[2]).load()
        assert value == [1, "a"], value
        assert not {"functools", "collections"} & {*sys.modules}, [*sys.modules]
        import functools
        partial = _payload.c_pickle().loads(_payload.c_pickle().dumps(functools.partial(int, base=2), 5))
        assert functools.reduce and type(partial) is functools.partial and partial("11") == 3
    """
    arguments = [os.path.dirname(_payload.__file__), str(written(tmp_path, [1, "a"]))]
    subprocess.run([sys.executable, "-I", "-S", "-c", code, *arguments], check=True)


def test_a_write_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="unmarshallable"):
        _payload.write(tmp_path / "file", {"odd": object()}, b"")
    with pytest.raises(FileNotFoundError):
        _payload.write(tmp_path / "no" / "file", {}, b"")
    with pytest.raises(TypeError):
        _payload.write(tmp_path / "file", {}, b"", [3])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_frames_come_whole_from_any_pieces(piece):
    sent = [(number, {"ok": number % 2 == 0}, pickle.dumps("x" * number)) for number in range(50)]
    data = b"".join(frame(*one) for one in sent)
    reader = Reader()
    found = [one for at in range(0, len(data), piece) for one in reader.feed(data[at : at + piece])]
    assert [(number, one.head["ok"], one.load()) for number, one in found] == [(n, h["ok"], "x" * n) for n, h, _ in sent]
    assert [*reader.feed(data[: len(data) // 2])] and len([*reader.feed(data[len(data) // 2 :])]) < 50
