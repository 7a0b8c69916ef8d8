"""Channels with numpy, torch and jax, where they are there; and that they are not imported for it."""
import sys

import pytest

from shared import address, python

from pergpu import share


def pair(**options):
    channel = share.Channel(**{"slots": 3, "slot_bytes": 10000, **options})
    return channel.producer(), channel.consumer()


def test_nothing_is_imported_that_is_not_used():
    text = """
import sys
from pergpu import share
channel = share.Channel(slot_bytes=10)
channel.producer().put(b"x")
assert bytes(channel.consumer().get()) == b"x"
print(sorted({"numpy", "torch", "jax", "asyncio", "multiprocessing"} & set(sys.modules)))
"""
    assert python(text) == "[]\n"


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "float64", "complex64", "complex128"])
def test_arrays_of_numpy(dtype):
    numpy = pytest.importorskip("numpy")
    out, batches = pair()
    given = numpy.arange(24).reshape(2, 3, 4).astype(dtype)
    for array in (given, given.T, given[:, ::-1, ::2], given[:0], given[0, 0, 0], numpy.asfortranarray(given), numpy.broadcast_to(given[0], (5, 3, 4))):
        out.put(array)
        with batches.get() as item:
            came = item.numpy()
            assert came.dtype == array.dtype and came.shape == array.shape and numpy.array_equal(came, array)
            assert numpy.shares_memory(came, numpy.asarray(item)) or not came.size
            assert came.flags.writeable and came.flags.c_contiguous
            del came
    for wrong in (given.astype("O"), numpy.zeros(2, ">i4"), numpy.array(["text"]), numpy.zeros(2, "M8[s]"), numpy.zeros(2, "i4,i4")):
        with pytest.raises((TypeError, BufferError), match="expected numbers|expected an array|only supports"):
            out.put(wrong)
    for said in (numpy.float32, numpy.dtype("float32"), "float32"):
        assert share.Channel(shape=(2,), dtype=said)._spec() == ("array", [["", "float32", [2]]])


def test_tensors_of_torch():
    torch = pytest.importorskip("torch")
    out, batches = pair()
    given = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    out.put(given > 3)
    assert memoryview(batches.get()).tolist() == (given > 3).tolist()
    for tensor in (given, given.t(), given[:, ::2], given.bfloat16(), given.half(), given[:0], given[1, 1]):
        out.put(tensor)
        item = batches.get()
        came = item.torch()
        assert came.dtype == tensor.dtype and came.shape == tensor.shape and torch.equal(came, tensor)
        assert came.data_ptr() == address(item.array) or not came.numel()
        assert torch.equal(torch.from_dlpack(item), tensor)
        del item, came
    out.put({"x": given, "y": given.long()})
    both = batches.get().torch()
    assert torch.equal(both["x"], given) and torch.equal(both["y"], given.long())
    both["x"] += 1  # in place, and without a warning
    with pytest.raises((RuntimeError, BufferError), match="grad"):
        out.put(torch.ones(2, requires_grad=True))
    with pytest.raises((TypeError, RuntimeError, BufferError, NotImplementedError)):
        out.put(torch.ones(2, device="meta"))
    fixed = share.Channel(shape=(4, 6), dtype=torch.bfloat16)
    fixed.producer().put(given.bfloat16())
    batches = fixed.consumer()
    assert torch.equal(batches.get().torch(), given.bfloat16())
    out, batches = pair(slot_bytes=None, like={"x": given, "y": torch.zeros(2, dtype=torch.int64)})
    with out.slot() as slot:
        slot["x"].torch()[:] = given
        slot["y"].torch().fill_(7)
    assert torch.equal(batches.get()["x"].torch(), given)


def test_arrays_of_jax():
    jax = pytest.importorskip("jax")
    out, batches = pair()
    given = jax.numpy.arange(24, dtype="float32").reshape(4, 6)
    out.put({"x": given, "y": given.astype("bfloat16")})
    item = batches.get()
    assert (jax.numpy.from_dlpack(item["x"]) == given).all()
    assert item["y"].dtype == "bfloat16"
    assert "jax" in sys.modules
