"""Means of files of models, and the file of the best run."""
import json
import os
import signal
import struct
import subprocess
import sys

import pergpu
import pytest
from pergpu import _reported

numpy = pytest.importorskip("numpy")
share = pytest.importorskip("pergpu.share", reason="the compiled part of the package is not built")

NAMES = {
    "float16": "F16", "float32": "F32", "float64": "F64", "int64": "I64", "bool": "BOOL", "uint16": "BF16"
}  # fmt: skip


def save_safetensors(path, arrays, metadata=None, pad=0):
    """As the format's README has it; arrays of uint16 are taken for bfloat16."""
    head, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, array in arrays.items():
        begin = len(data)
        data += array.tobytes()
        head[name] = {"dtype": NAMES[array.dtype.name], "shape": array.shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(head).encode() + pad * b" "
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def load(path):
    loaded = share.dataset(path)
    return {name: one.numpy() for name, one in loaded.items()} if isinstance(loaded, dict) else loaded.numpy()


def model(seed, dtype="float32"):
    random = numpy.random.default_rng(seed)
    return {
        "layer.weight": random.normal(size=(7, 1000)).astype(dtype),
        "layer.bias": random.normal(size=(7,)).astype(dtype),
        "scalar": numpy.array(float(seed), dtype),
        "none": numpy.zeros((0, 3), dtype),
    }


def close_to(found, models, weights=None):
    weights = numpy.array(weights or len(models) * [1.0])
    for name in models[0]:
        expected = sum(one[name].astype("float64") * weight for one, weight in zip(models, weights / weights.sum()))
        assert found[name].shape == expected.shape and found[name].dtype == models[0][name].dtype
        numpy.testing.assert_allclose(
            found[name].astype("float64"), expected, atol=0.001 if found[name].dtype == "float16" else 1e-6
        )


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("end", [".safetensors", ".npz"])
def test_it_is_the_mean_of_each_array_by_name(tmp_path, dtype, end):
    models = [model(seed, dtype) for seed in range(4)]
    paths = [tmp_path / f"{seed}{end}" for seed in range(4)]
    for i, (path, arrays) in enumerate(zip(paths, models)):
        arrays = dict(reversed(list(arrays.items()))) if i % 2 else arrays  # the order is each file's own
        if end == ".npz":
            numpy.savez(path, **arrays)
        else:
            save_safetensors(path, arrays, pad=i)  # nor are they aligned
    share.mean(paths, tmp_path / f"mean{end}")
    close_to(load(tmp_path / f"mean{end}"), models)
    share.mean(paths, str(paths[0]), weights=[1, 0.5, 0, 2])  # one of them itself
    close_to(load(paths[0]), models, [1, 0.5, 0, 2])
    assert sorted(os.listdir(tmp_path)) == sorted([path.name for path in paths] + [f"mean{end}"])
    if end == ".npz":
        with numpy.load(paths[0]) as loaded:  # which checks the sums of the zip file
            assert set(loaded.files) == set(models[0])


def test_of_npy_files_and_of_bfloat16(tmp_path):
    for i in range(3):
        numpy.save(tmp_path / f"{i}.npy", numpy.full((5, 5), float(i)))
    share.mean([tmp_path / f"{i}.npy" for i in range(3)], tmp_path / "mean.npy")
    assert (numpy.load(tmp_path / "mean.npy") == numpy.full((5, 5), 1.0)).all()
    for i, bits in enumerate((0x3F80, 0x4040)):  # 1 and 3
        save_safetensors(tmp_path / f"{i}.safetensors", {"x": numpy.full(100, bits, "uint16")}, {"format": "pt"})
    share.mean([tmp_path / f"{i}.safetensors" for i in range(2)], tmp_path / "mean.safetensors")
    assert share.dataset(tmp_path / "mean.safetensors")["x"].dtype == "bfloat16"
    whole = (tmp_path / "mean.safetensors").read_bytes()
    assert whole[-200:] == 100 * struct.pack("<H", 0x4000) and b'"format": "pt"' in whole, "2, and the metadata"


def test_counters_that_are_equal_are_taken_over_and_others_refused(tmp_path):
    paths = [tmp_path / f"{i}.safetensors" for i in range(3)]
    arrays = {"x": numpy.ones(3, "float32"), "steps": numpy.array(7), "mask": numpy.array([True, False])}
    for path in paths:
        save_safetensors(path, arrays)
    share.mean(paths, tmp_path / "mean.safetensors")
    found = load(tmp_path / "mean.safetensors")
    assert found["steps"] == 7 and found["mask"].tolist() == [True, False]
    save_safetensors(paths[2], {**arrays, "steps": numpy.array(8)})
    told = "'steps' is int64, which can't be averaged, and differs between .*0.safetensors and .*2.safetensors"
    before = (tmp_path / "mean.safetensors").read_bytes()
    with pytest.raises(ValueError, match=told):
        share.mean(paths, tmp_path / "mean.safetensors")
    assert (tmp_path / "mean.safetensors").read_bytes() == before
    assert len(os.listdir(tmp_path)) == 4, "nor is there half of another one"


def test_a_large_one_goes_by_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(share._models, "_PIECE", 4096)
    for end in (".safetensors", ".npz"):
        models = [model(seed) for seed in range(2)]
        paths = [tmp_path / f"{seed}{end}" for seed in range(2)]
        for path, arrays in zip(paths, models):
            numpy.savez(path, **arrays) if end == ".npz" else save_safetensors(path, arrays)
        share.mean(paths, tmp_path / f"mean{end}")
        close_to(load(tmp_path / f"mean{end}"), models)


def test_files_that_do_not_fit_are_told_by_file_array_and_shape(tmp_path):
    def refused(one, other, told):
        paths = [save_safetensors(tmp_path / f"{i}.safetensors", arrays) for i, arrays in enumerate((one, other))]
        with pytest.raises(ValueError, match=told):
            share.mean(paths, tmp_path / "mean.safetensors")
        assert not (tmp_path / "mean.safetensors").exists()

    x, y = numpy.ones((2, 3), "float32"), numpy.ones((3, 2), "float32")
    refused({"x": x}, {"x": y}, r"'x' is float32 \(2, 3\) in .*0.safetensors and float32 \(3, 2\) in .*1.safetensors")
    refused({"x": x}, {"x": x.astype("float64")}, r"'x' is float32 \(2, 3\) in .* and float64 \(2, 3\) in")
    refused({"x": x}, {"x": x, "y": y}, "0.safetensors has no array 'y', which .*1.safetensors has")
    refused({"x": x, "y": y}, {"x": x}, "1.safetensors has no array 'y', which .*0.safetensors has")


def test_mistakes_are_told(tmp_path):
    path = save_safetensors(tmp_path / "a.safetensors", {"x": numpy.ones(3, "float32")})
    out = tmp_path / "mean.safetensors"
    for wrong, told in (
        (lambda: share.mean(str(path), out), "expected a list of files"),
        (lambda: share.mean([], out), "paths is empty; expected one file or more"),
        (lambda: share.mean([path], tmp_path / "mean.npz"), "expected files of one kind"),
        (lambda: share.mean([path], out, [1, 2]), "there are 2 weights for 1 files"),
        (lambda: share.mean([path, path], out, [1, -1]), "expected finite numbers whose sum is not 0"),
        (lambda: share.mean([path], out, [float("nan")]), "expected finite numbers"),
        (lambda: share.mean([tmp_path / "no.safetensors"], out), "No such file"),
        (lambda: share.mean([path], tmp_path / "no" / "mean.safetensors"), "No such file"),
    ):
        with pytest.raises((ValueError, TypeError, OSError), match=told):
            wrong()
    numpy.savez_compressed(tmp_path / "a.npz", x=numpy.ones(3))
    with pytest.raises(share.BadFile, match="x is compressed .* which can't be averaged"):
        share.mean([tmp_path / "a.npz"], tmp_path / "mean.npz")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(share.BadFile, match="the file is cut off"):
        share.mean([path], out)
    for wrong in (["float32", [(0, 0)], 1, (1, 0)], ["float32", [3], 1, (1, 0)], ["float32", [], 1, 7]):
        with pytest.raises(TypeError):
            share._share.write_mean(*wrong)
    for wrong in (["int64", [(0, 0, 1)], 1, (1, 0)], ["float32", [], 1, (1, 0)], ["float32", [(0, -1, 1)], 1, (1, 0)]):
        with pytest.raises(ValueError):
            share._share.write_mean(*wrong)


def test_a_kill_in_the_middle_leaves_what_was_there(tmp_path):
    paths = [save_safetensors(tmp_path / f"{i}.safetensors", model(i)) for i in range(2)]
    share.mean(paths, tmp_path / "mean.safetensors")
    before = (tmp_path / "mean.safetensors").read_bytes()
    code = """
import os, signal, sys
from pergpu import share
share._models._PIECE = 4096
written = share._models._write_piece
def write(*args):
    written(*args)
    if args[5]:
        os.kill(os.getpid(), signal.SIGKILL)
share._models._write_piece = write
share.mean(sys.argv[1:3], sys.argv[3], [1, 9])
"""
    done = subprocess.run([sys.executable, "-c", code, *map(str, paths), str(tmp_path / "mean.safetensors")], timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "mean.safetensors").read_bytes() == before


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two of which the second is the better one."""
    for name, loss in (("a", 2), ("b", 1)):
        (tmp_path / "runs" / name / "train").mkdir(parents=True)
        (tmp_path / "runs" / name / "train" / "model.bin").write_text(f"model {name}")
    tracks = {}
    for name, loss in (("a", 2), ("b", 1)):
        tracks[name] = {}
        _reported._add(tracks[name], {"loss": loss, "step": 5})
    jobs = [
        pergpu.Reported(job=1, attempt=1, run=name, step="train", out=str(tmp_path / "runs" / name / "train"),
                        state="done", alive=False, params={}, tracks=tracks[name])
        for name in ("a", "b")
    ]  # fmt: skip
    monkeypatch.setattr(_reported, "metrics", lambda sweep, files: jobs)
    return tmp_path / "runs"


def test_the_file_of_the_best_run_is_copied(runs, tmp_path):
    found = share.best_of("loss", "model.bin", tmp_path / "best.bin")
    assert (found.run, found.value, found.at_step) == ("b", 1, 5)
    assert (tmp_path / "best.bin").read_text() == "model b"
    (runs / "b" / "train" / "model.bin").write_text("model c")  # the job goes on
    assert (tmp_path / "best.bin").read_text() == "model b"
    share.best_of("loss", "model.bin", tmp_path / "best.bin", "max")
    assert (tmp_path / "best.bin").read_text() == "model a"
    for _ in range(2):
        share.best_of("loss", "model.bin", tmp_path / "best.bin", link=True)
        assert (tmp_path / "best.bin").samefile(runs / "b" / "train" / "model.bin")
    assert sorted(os.listdir(tmp_path)) == ["best.bin", "runs"]


def test_a_best_run_without_the_file_is_told(runs, tmp_path):
    with pytest.raises(FileNotFoundError, match="run b is best .loss 1. and has no such file"):
        share.best_of("loss", "other.bin", tmp_path / "best.bin")
    with pytest.raises(ValueError, match="expected a name in the job's folder"):
        share.best_of("loss", "/model.bin", tmp_path / "best.bin")
    with pytest.raises(LookupError, match="no job has reported a number 'fid'"):
        share.best_of("fid", "model.bin", tmp_path / "best.bin")
    assert os.listdir(tmp_path) == ["runs"]
