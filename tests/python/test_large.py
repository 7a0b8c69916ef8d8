"""Large arguments: equal ones of many calls lie in one file; tensors lie beside the pickle as arrays do."""
import os
import sys

import pytest

pytest.importorskip("cloudpickle")
from pergpu import _payload, _pickling, _private  # noqa: E402
from pergpu._large import LARGE, Large  # noqa: E402


def written(large, folder, number, what):
    pickled, buffers = _pickling.dump(what)
    at = _private.open_private(folder)
    try:
        _payload.write(f"{folder}/{number}", {}, pickled, large.placed(str(folder), at, buffers), durable=False, at=at)
        large.sync()
        return _payload.Payload(f"{folder}/{number}", at).load()
    finally:
        os.close(at)


def sizes(folder):
    return sorted(os.path.getsize(folder / name) for name in os.listdir(folder) if name.startswith("large-"))


def test_equal_buffers_lie_in_one_file(tmp_path):
    numpy = pytest.importorskip("numpy")
    large = Large()
    array = numpy.arange(LARGE, dtype="uint8")
    small = numpy.ones(100_000, dtype="uint8")
    for number in range(3):
        first, second, third = written(large, tmp_path, number, [array.copy(), small, array.astype("float32")])
        assert (first == array).all() and (second == small).all() and (third == array).all()
        first[0] = 7  # it is its own
    assert sizes(tmp_path) == [LARGE, 4 * LARGE]
    array[LARGE // 2 + 5000] += 1  # no sample sees it
    assert (written(large, tmp_path, 3, array) == array).all()
    assert sizes(tmp_path) == [LARGE, LARGE, 4 * LARGE]
    os.truncate(tmp_path / next(name for name in sorted(os.listdir(tmp_path)) if name.startswith("large-")), 10)
    assert (written(large, tmp_path, 4, array) == array).all()


def test_two_executors_of_one_folder_take_other_names(tmp_path):
    numpy = pytest.importorskip("numpy")
    one, two = Large(), Large()
    assert written(one, tmp_path, 0, numpy.ones(LARGE))[0] == 1 and written(two, tmp_path, 1, numpy.zeros(LARGE))[0] == 0
    assert _payload.Payload(tmp_path / "0").load()[0] == 1


def test_tensors_come_as_they_were_and_lie_beside_the_pickle():
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(300, 300)
    frozen = torch.nn.Parameter(torch.ones(70_000), requires_grad=False)
    given = {
        "f32": torch.arange(70_000.0), "bf16": torch.ones(300, 300).bfloat16(), "bool": torch.ones(70_000) > 0, "grad": torch.ones(70_000, requires_grad=True),
        "t": torch.arange(90_000.0).reshape(300, 300).t(), "small": torch.ones(3), "none": torch.zeros(0), "frozen": frozen, "conj": torch.ones(70_000, dtype=torch.complex64).conj(),
        "part": torch.arange(200_000.0)[100_000:], "sparse": torch.eye(3).to_sparse(), "model": model, "again": model.weight, "scalar": torch.tensor(3),
    }  # fmt: skip
    pickled, buffers = _pickling.dump(given)
    found = _payload.load(pickled, [bytearray(buffer) for buffer in buffers])
    for name, value in given.items():
        if isinstance(value, torch.Tensor):
            same = found[name]
            assert type(same) is type(value) and same.dtype == value.dtype and same.requires_grad == value.requires_grad, name
            assert (same.to_dense() == value.to_dense()).all() if value.is_sparse else torch.equal(same, value), name
    assert found["again"] is found["model"].weight
    assert len(pickled) < 3_000_000 and max(map(len, buffers)) == 400_000, "of a part only that goes along"
    assert "torch" in sys.modules
