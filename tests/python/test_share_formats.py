"""Heads of files of arrays: what numpy and safetensors write is found, all else is named, nothing is believed."""
import io
import json
import random
import struct
import zipfile

import pytest

numpy = pytest.importorskip("numpy")
_formats = pytest.importorskip("pergpu.share._formats", reason="the compiled part of the package is not built")
BadFile, Stored, read_head = _formats.BadFile, _formats.Stored, _formats.read_head
DTYPES = sorted(set(_formats.SIZES) - {"bfloat16", "float8_e4m3fn", "float8_e5m2"})


def bytes_of(path, stored):
    return path.read_bytes()[stored.offset : stored.offset + stored.nbytes]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (2, 3, 4)])
def test_what_numpy_saves_is_found(tmp_path, dtype, shape):
    value = (numpy.arange(numpy.prod(shape, dtype=int)) % 2).reshape(shape).astype(dtype)
    path = tmp_path / "a.npy"
    numpy.save(path, value)
    (stored,), why_not = read_head(path)
    assert (stored.name, stored.dtype, stored.shape, why_not) == ("", dtype, shape, "")
    assert stored.aligned and bytes_of(path, stored) == value.tobytes()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_npy_is_read(tmp_path, version):
    path, value = tmp_path / "a.npy", numpy.arange(5.0)
    with open(path, "wb") as file:
        numpy.lib.format.write_array(file, value, version)
    (stored,), _ = read_head(path)
    assert bytes_of(path, stored) == value.tobytes()


def test_each_array_of_an_npz_is_found(tmp_path):
    path, values = tmp_path / "a.npz", {"x": numpy.arange(10, dtype="int16"), "long/ä" * 20: numpy.eye(3)}
    numpy.savez(path, **values)
    arrays, why_not = read_head(path)
    assert not why_not and {one.name: bytes_of(path, one) for one in arrays} == {k: v.tobytes() for k, v in values.items()}


def safetensors(path, head, data):
    packed = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(packed)) + packed + data)
    return path


def test_each_tensor_of_a_safetensors_file_is_found(tmp_path):
    head = {
        "__metadata__": {"format": "pt"},
        "w": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]},
        "b": {"dtype": "F32", "shape": [], "data_offsets": [8, 12]},
    }
    path = safetensors(tmp_path / "a.safetensors", head, bytes(range(12)))
    arrays, why_not = read_head(path)
    assert [one[:3] for one in arrays] == [("w", "bfloat16", (2, 2)), ("b", "float32", ())] and not why_not
    assert [bytes_of(path, one) for one in arrays] == [bytes(range(8)), bytes(range(8, 12))]


@pytest.mark.parametrize(
    "value, words",
    [
        (numpy.asfortranarray(numpy.eye(3)), "column by column"),
        (numpy.eye(3).astype(">f8"), "another byte order"),
        (numpy.array([object()]), "Python objects"),
        (numpy.array(["text"]), "<U4"),
        (numpy.zeros(2, [("a", "i4")]), "records"),
        (numpy.zeros(2, "datetime64[s]"), "M8"),
    ],
)
def test_what_has_other_bytes_in_memory_says_why(tmp_path, value, words):
    path = tmp_path / "a.npy"
    numpy.save(path, value)
    assert read_head(path).arrays == [] and words in read_head(path).why_not


def test_a_compressed_npz_says_why(tmp_path):
    numpy.savez_compressed(tmp_path / "a.npz", x=numpy.eye(3))
    assert "x is compressed" in read_head(tmp_path / "a.npz").why_not


def test_raw_values_fit_or_are_refused(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(24))
    assert _formats.raw(path, "float64") == Stored("", "float64", (3,), 0)
    assert _formats.raw(path, "int16", (2, 4), offset=8) == Stored("", "int16", (2, 4), 8)
    assert _formats.raw(path, "int16", (-1, 4)) == Stored("", "int16", (3, 4), 0)
    assert _formats.raw(path, "int16", [2, -1, 3], offset=12) == Stored("", "int16", (2, 1, 3), 12)
    for args, words in [
        (("float65",), "there is no dtype 'float65'"),
        (("complex128",), "24 bytes are not a whole number of complex128"),
        (("int16", (2, 4)), "16 bytes, but the file has 24"),
        (("int8", None, 25), "offset is 25, outside the file of 24 bytes"),
        (("int8", (-24,)), "is not a shape"),
        (("int8", 24), "is not a shape"),
        (("int8", (-1, -1)), "2 dimensions of -1"),
        (("int16", (5, -1)), r"24 bytes are not a whole number of rows of int16 \(5,\) \(10 bytes each\)"),
        (("int16", (0, -1)), "not a whole number of rows"),
    ]:
        with pytest.raises(BadFile, match="a.bin: .*" + words):
            _formats.raw(path, *args)


def whole_files(tmp_path):
    numpy.save(tmp_path / "a.npy", numpy.arange(6.0).reshape(2, 3))
    numpy.savez(tmp_path / "a.npz", x=numpy.arange(3), y=numpy.eye(2))
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    safetensors(tmp_path / "a.safetensors", {"x": entry, "y": {**entry, "data_offsets": [8, 16]}}, bytes(16))
    return [tmp_path / name for name in ("a.npy", "a.npz", "a.safetensors")]


def test_what_is_cut_off_is_refused_at_every_length(tmp_path):
    for path in whole_files(tmp_path):
        whole = path.read_bytes()
        for size in range(len(whole)):
            path.write_bytes(whole[:size])
            with pytest.raises(BadFile, match=path.name):
                read_head(path)


def test_no_byte_that_is_changed_leads_outside_the_file(tmp_path):
    chance = random.Random(1)
    for path in whole_files(tmp_path):
        whole = path.read_bytes()
        for _ in range(1000):
            damaged = bytearray(whole)
            for _ in range(chance.randint(1, 3)):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            path.write_bytes(damaged)
            try:
                arrays, _ = read_head(path)
            except BadFile:
                continue
            for one in arrays:
                assert 0 <= one.offset and one.offset + one.nbytes <= len(whole)
                assert all(type(n) is int and n >= 0 for n in one.shape)


@pytest.mark.parametrize(
    "head",
    [
        b"[]", b"{}}", b"\xff", b'{"x": 3}', b'{"x": {"dtype": "F32", "shape": [2], "data_offsets": [0]}}',
        b'{"x": {"dtype": "F32", "shape": [2], "data_offsets": [0.0, 8.0]}}', b'{"x": {"dtype": ["F32"], "shape": [2], "data_offsets": [0, 8]}}',
        b'{"x": {"dtype": "F32", "shape": [true], "data_offsets": [0, 4]}}', b'{"x": {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}}',
        b'{"x": {"dtype": "F32", "shape": [1e30], "data_offsets": [0, 8]}}', b"[" * 100_000,
    ],
    ids=range(11),
)  # fmt: skip
def test_a_head_that_makes_no_sense_is_refused(tmp_path, head):
    path = tmp_path / "a.safetensors"
    path.write_bytes(struct.pack("<Q", len(head)) + head + bytes(16))
    with pytest.raises(BadFile, match="a.safetensors"):
        read_head(path)


def test_a_name_without_a_known_end_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("1,2")
    with pytest.raises(BadFile, match="the suffix is '.csv'; expected .npy, .npz or .safetensors"):
        read_head(tmp_path / "a.csv")
    with pytest.raises(FileNotFoundError):
        read_head(tmp_path / "none.npy")


def test_an_npz_whose_directory_lies_is_refused(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00\x05\x00abc")
    (tmp_path / "a.npz").write_bytes(buffer.getvalue())
    with pytest.raises(BadFile, match="head cannot be read"):
        read_head(tmp_path / "a.npz")
