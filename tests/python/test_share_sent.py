"""Arrays that go to another process: by their key, if they lie in shared data."""
import multiprocessing
import os
import pickle
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler

import pytest

numpy = pytest.importorskip("numpy")
share = pytest.importorskip("pergpu.share", reason="the compiled part of the package is not built")


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(share._dataset, "_seen", {})


def make():
    return {"x": numpy.arange(100_000.0).reshape(-1, 10), "y": numpy.arange(7, dtype="int16"), "none": numpy.zeros((0, 3)), "names": ["a"] * 101}


def looks(arrays):
    """What another process finds, and the inodes of the memory that it has of shared data."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        inodes = {line.split()[4] for line in file if "pergpu:data" in line or ".npy" in line}
    return [(array.dtype, array.shape, float(array.numpy().sum())) for array in arrays], inodes


def is_the_same(theirs, ours):
    return theirs[0] == ours[0] and theirs[1] and theirs[1] <= ours[1]


@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("view", ["cow", "ro", "shared"])
def test_another_process_maps_the_same_memory(way, view):
    data = share.dataset("sent", make, view=view)
    arrays = [data[name] for name in ("x", "y", "none")]
    if way == "spawn" and view == "shared":
        arrays[1].numpy()[0] = 50
    with multiprocessing.get_context(way).Pool(1) as pool:
        assert is_the_same(pool.apply(looks, [arrays]), looks(arrays))
        assert list(pool.apply(list, [data["names"]])) == ["a"] * 101


def sent_to_a_process(what):
    return bytes(ForkingPickler.dumps(what))


def test_a_reference_is_short_and_an_array_that_is_in_no_dataset_is_copied(tmp_path):
    data = share.dataset("sent", make)
    assert len(sent_to_a_process(data["x"])) < 1000
    loader = share.Loader({"x": data["x"]}, batch_size=8, shuffle=False)
    batch = next(iter(loader))["x"]
    again = pickle.loads(sent_to_a_process(batch))
    assert isinstance(again, share.Array) and (again.numpy() == batch.numpy()).all() and again.shape == (8, 10)
    half = share.Array(bytearray(8), 0, (4,), "bfloat16")
    assert memoryview(pickle.loads(sent_to_a_process(half))).nbytes == 8


def test_of_a_mapped_file_its_path_goes_along(tmp_path):
    path = tmp_path / "a b.npy"
    numpy.save(path, numpy.arange(100_000.0))
    array = share.dataset(path)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert is_the_same(pool.apply(looks, [[array]]), looks([array]))
    sent = sent_to_a_process(array)
    numpy.save(path, numpy.arange(9.0))
    with pytest.raises(LookupError, match="was changed"):
        pickle.loads(sent)


def test_what_nobody_has_any_more_is_told_by_its_key(tmp_path):
    text = (
        "import sys, numpy\nfrom multiprocessing.reduction import ForkingPickler as Pickler\nfrom pergpu import share\n"
        "sys.stdout.buffer.write(Pickler.dumps(share.dataset('my tokens', lambda: numpy.ones(3))))"
    )
    sent = subprocess.run([sys.executable, "-c", text], stdout=subprocess.PIPE, check=True, env=os.environ).stdout
    with pytest.raises(LookupError, match="the shared data 'my tokens' is in no process"):
        pickle.loads(sent)


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_any_other_pickle_has_a_copy(protocol):
    data = share.dataset("sent", make)
    buffers = []
    beside = {"buffer_callback": buffers.append} if protocol == 5 else {}
    for array in (data["x"], data["y"], data["none"], share.Array(bytearray(b"abcdefgh"), 0, (4,), "bfloat16")):
        for pickled, lies in ((pickle.dumps(array, protocol), []), (pickle.dumps(array, protocol, **beside), buffers)):
            again = pickle.loads(pickled, buffers=[bytes(one) for one in lies])
            assert (again.dtype, again.shape, again.readonly) == (array.dtype, array.shape, False)
            assert bytes(memoryview(again)) == bytes(memoryview(array))
            assert not lies or len(pickled) < 300
        buffers.clear()
    again = pickle.loads(pickle.dumps(data["x"]))
    again.numpy()[0] = -1
    assert data["x"].numpy()[0, 0] == 0
