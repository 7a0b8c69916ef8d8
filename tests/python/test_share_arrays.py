"""Arrays of pergpu._share in numpy and torch, and as DLPack tensors: without a copy, as long as they
are used, and never written where they must not be.
"""
import ctypes
import gc
import threading
import warnings

import pytest

from shared import DTYPES, NUMBERS, address, array, maps, memory, native

# What each version of DLPack's structures has before its tensor.
HEADS = {
    b"dltensor": [],
    b"dltensor_versioned": [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64)],
}
TENSOR = [
    ("data", ctypes.c_void_p),
    ("device_type", ctypes.c_int32),
    ("device_id", ctypes.c_int32),
    ("ndim", ctypes.c_int32),
    ("code", ctypes.c_uint8),
    ("bits", ctypes.c_uint8),
    ("lanes", ctypes.c_uint16),
    ("shape", ctypes.POINTER(ctypes.c_int64)),
    ("strides", ctypes.POINTER(ctypes.c_int64)),
    ("byte_offset", ctypes.c_uint64),
]
TAILS = {b"dltensor": [("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)], b"dltensor_versioned": []}

api = ctypes.pythonapi
api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_void_p]


def look(capsule):
    """The tensor in a capsule: its name, its structure."""
    name = api.PyCapsule_GetName(capsule)
    kind = type("Managed", (ctypes.Structure,), {"_fields_": HEADS[name] + TENSOR + TAILS[name]})
    return name, kind.from_address(api.PyCapsule_GetPointer(capsule, name))


USED = {b"dltensor": ctypes.create_string_buffer(b"used_dltensor"), b"dltensor_versioned": ctypes.create_string_buffer(b"used_dltensor_versioned")}


def consume(capsule):
    """As a library does: gives what the consumer has to call at the end, without the interpreter's lock."""
    name, tensor = look(capsule)
    api.PyCapsule_SetName(capsule, ctypes.addressof(USED[name]))
    return lambda: ctypes.CFUNCTYPE(None, ctypes.c_void_p)(tensor.deleter)(ctypes.addressof(tensor))


def module(name):
    return pytest.importorskip(name, reason=f"{name} is not installed")


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 1), (2, 0)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_capsule_tells_of_the_memory_itself(dtype, version):
    size = DTYPES[dtype][0]
    made = array((2, 0, 3) if dtype == "int8" else (2, 1, 3), dtype)
    capsule = made.__dlpack__(max_version=version) if version else made.__dlpack__()
    name, tensor = look(capsule)
    assert name == (b"dltensor_versioned" if version and version >= (1, 0) else b"dltensor")
    assert tensor.data == (None if made.nbytes == 0 else address(made)) and tensor.byte_offset == 0
    assert (tensor.device_type, tensor.device_id, tensor.ndim, tensor.lanes, tensor.bits) == (1, 0, 3, 1, 8 * size)
    assert tensor.shape[:3] == list(made.shape) and tensor.strides[:3] == [3, 3, 1]
    codes = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5, "bool": 6, "float8_e4m3fn": 10, "float8_e5m2": 12}
    assert tensor.code == codes[dtype if dtype in codes else dtype.rstrip("0123456789")]
    if version and version >= (1, 0):
        assert (tensor.major, tensor.minor, tensor.flags) == (1, min(version[1], 1) if version[0] == 1 else 1, 0)
    assert made.__dlpack_device__() == (1, 0)


def test_read_only_memory_is_given_to_those_only_that_know_what_that_is():
    made = array((4,), "int32", "ro")
    for version in (None, (0, 8)):
        with pytest.raises(BufferError, match="read-only.*copy=True"):
            made.__dlpack__(max_version=version)
    capsule = made.__dlpack__(max_version=(1, 0))
    assert look(capsule)[1].flags == 1 and look(capsule)[1].data == address(made)
    capsule = made.__dlpack__(max_version=(1, 0), copy=False)
    assert look(capsule)[1].flags == 1


@pytest.mark.parametrize("version", [None, (1, 0)])
@pytest.mark.parametrize("shape", [(), (3, 5), (0, 4), (300, 1000)])
def test_a_copy_is_of_its_own(shape, version):
    told = []
    made = array(shape, "int32", "ro", lambda: told.append(1))
    content = memoryview(made).tobytes()
    capsule = made.__dlpack__(max_version=version, copy=True)
    tensor = look(capsule)[1]
    del made
    assert told == [1] and maps() == []
    assert tensor.data is None if content == b"" else ctypes.string_at(tensor.data, len(content)) == content
    assert tensor.ndim == len(shape) and tensor.shape[: len(shape)] == list(shape)
    assert version is None or tensor.flags == 2
    consume(capsule)()


def test_what_dlpack_cannot_have_is_said():
    made = array((4,), "int32")
    for wrong in ({"stream": 1}, {"dl_device": (2, 0)}, {"dl_device": (1, 1)}):
        with pytest.raises(BufferError):
            made.__dlpack__(**wrong)
    made.__dlpack__(stream=None, max_version=None, dl_device=(1, 0), copy=None)
    for wrong in ({"dl_device": 1}, {"max_version": 1}, {"max_version": (1,)}, {"max_version": ("1", 0)}, {"other": 1}):
        with pytest.raises(TypeError):
            made.__dlpack__(**wrong)
    with pytest.raises(TypeError):
        made.__dlpack__(None)


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_the_memory_stays_until_the_consumer_has_ended(version):
    told = []
    capsule = array((4,), "int32", on_release=lambda: told.append(threading.get_ident())).__dlpack__(max_version=version)
    end = consume(capsule)
    del capsule
    gc.collect()
    assert told == [] and len(maps()) == 1
    thread = threading.Thread(target=end)
    thread.start()
    thread.join()
    assert told == [thread.ident] and maps() == []


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_that_nobody_took_ends_by_itself(version):
    told = []
    capsule = array((4,), "int32", on_release=lambda: told.append(1)).__dlpack__(max_version=version)
    assert told == []
    del capsule
    assert told == [1] and maps() == []


@pytest.mark.parametrize("view", ["cow", "ro"])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_numpy_takes_it_without_a_copy(dtype, view):
    numpy = module("numpy")
    told = []
    made = array((2, 3), dtype, view, lambda: told.append(1))
    taken = [numpy.asarray(made), numpy.frombuffer(made, dtype), numpy.asarray(type("I", (), {"__array_interface__": made.__array_interface__, "kept": made}))]
    for one in taken:
        assert (one.dtype, one.ctypes.data, one.flags.writeable) == (numpy.dtype(dtype), address(made), view == "cow")
    assert taken[0].shape == (2, 3) and taken[0].tobytes() == memoryview(made).tobytes()
    at = address(made)
    taken = taken[0].T[1:, :]
    del made, one
    gc.collect()
    assert told == [] and taken.ctypes.data == at + taken.itemsize
    del taken
    assert told == [1] and maps() == []


@pytest.mark.parametrize("dtype", [name for name in NUMBERS if name != "bool"])
def test_numpy_takes_it_by_dlpack(dtype):
    numpy = module("numpy")
    if not hasattr(numpy, "from_dlpack"):
        pytest.skip("numpy before 1.23")
    told = []
    made = array((2, 3), dtype, on_release=lambda: told.append(1))
    taken = numpy.from_dlpack(made)
    assert (taken.shape, taken.dtype, taken.ctypes.data) == ((2, 3), numpy.dtype(dtype), address(made))
    knows_versions = tuple(map(int, numpy.__version__.split(".")[:2])) >= (2, 1)
    assert taken.flags.writeable or not knows_versions  # numpy 2.0 takes all that has no version as read-only
    for shape in ((), (0, 3)):
        assert numpy.from_dlpack(array(shape, dtype)).shape == shape
    read_only = array((2,), dtype, "ro")
    if knows_versions:
        assert not numpy.from_dlpack(read_only).flags.writeable
        copy = numpy.from_dlpack(read_only, copy=True)
        assert copy.flags.writeable and copy.tobytes() == memoryview(read_only).tobytes()
    else:
        with pytest.raises(BufferError):
            numpy.from_dlpack(read_only)
    del made
    assert told == []
    del taken
    assert told == [1]


def test_numpy_gives_what_an_array_is_made_of():
    numpy = module("numpy")
    base = numpy.arange(12, dtype="float32").reshape(3, 4)
    made = native.Array(base, 16, (4,), "float32")
    base[1, 0] = 99
    assert memoryview(made).tolist() == [99, 5, 6, 7]
    base.setflags(write=False)
    assert native.Array(base, 0, (3, 4), "float32").readonly


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_numpy_takes_other_floats_as_bytes_without_a_meaning(dtype):
    numpy = module("numpy")
    taken = numpy.asarray(array((3,), dtype))
    assert taken.dtype.kind == "V" and taken.itemsize == DTYPES[dtype][0]
    with pytest.raises(TypeError):
        taken + taken
    assert taken.view("u1").tolist() == list(range(3 * taken.itemsize))


@pytest.fixture
def torch():
    torch = module("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield torch


TORCH = ["bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", TORCH)
def test_torch_takes_a_private_view_without_a_copy_or_a_warning(dtype, torch):
    numpy = module("numpy")
    told = []
    made = array((2, 3), dtype, on_release=lambda: told.append(1))
    kind = getattr(torch, dtype)
    taken = [torch.from_numpy(numpy.asarray(made)), torch.frombuffer(made, dtype=kind).reshape(2, 3)]
    if dtype != "bool":  # of DLPack: from torch 2 on
        taken.append(torch.from_dlpack(made))
    for one in taken:
        assert (one.dtype, tuple(one.shape), one.data_ptr()) == (kind, (2, 3), address(made))
    taken[0].view(-1)[0] = 1
    assert taken[-1].view(-1)[0] == 1
    del made, one
    gc.collect()
    assert told == []
    taken.clear()
    gc.collect()
    assert told == [1] and maps() == []


def test_torch_takes_floats_that_numpy_has_not(torch):
    made = native.Array(memory(b"\x80\x3f\x00\x40" * 3).map("cow"), 0, (2, 3), "bfloat16")
    for taken in (torch.from_dlpack(made), torch.frombuffer(made, dtype=torch.bfloat16).reshape(2, 3)):
        assert taken.dtype == torch.bfloat16 and taken.data_ptr() == address(made)
        assert taken.tolist() == [[1, 2, 1], [2, 1, 2]]
    if hasattr(torch, "float8_e5m2"):
        made = native.Array(memory(b"\x3c\x40").map("cow"), 0, (2,), "float8_e5m2")
        taken = torch.frombuffer(made, dtype=torch.float8_e5m2)
        assert taken.float().tolist() == [1, 2] and taken.data_ptr() == address(made)


def test_torch_takes_arrays_without_dimensions_and_without_elements(torch):
    for shape in ((), (0, 3), (1, 1)):
        assert tuple(torch.from_dlpack(array(shape, "float32")).shape) == shape


def test_a_tensor_that_ends_in_a_thread_of_torch_is_told_of(torch):
    told = []
    taken = torch.from_dlpack(array((4,), "float32", on_release=lambda: told.append(1))).requires_grad_()
    (taken * 2).sum().backward()
    del taken
    gc.collect()
    assert told == [1]
