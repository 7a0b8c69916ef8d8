"""pergpu._share: memory, what is mapped of it, and how long it lives."""
import ctypes
import errno
import gc
import mmap
import os
import signal
import subprocess
import sys
import threading

import pytest

from shared import DTYPES, address, array, descriptors, maps, memory, native, python


def test_memory_is_zero_and_reserved_and_has_its_descriptor():
    made = native.Memory.create("test", 5000)
    assert (made.nbytes, made.sealed, made.huge) == (5000, False, False)
    assert not os.get_inheritable(made.fileno())
    status = os.fstat(made.fileno())
    assert status.st_size == 5000 and status.st_blocks * 512 >= 5000
    region = made.map("shared")
    assert bytes(region) == bytes(5000)
    assert (len(region), region.nbytes, region.view) == (5000, 5000, "shared")
    assert len(maps()) == 1 and maps()[0].startswith(f"{region.address:x}-")
    del region
    assert maps() == []
    assert native.Memory.create(name="test", size=1, huge=True).nbytes >= 1


def test_wrong_arguments_are_told_with_what_was_given():
    create = native.Memory.create
    for size in (0, -1, 2**63, 2**70):
        with pytest.raises(ValueError, match=str(size)):
            create("test", size)
    with pytest.raises(MemoryError, match=str(2**50)):
        create("test", 2**50)
    for arguments in (("test",), ("test", 1.5), ("test", None), (b"test", 1), (None, 1), ("test", "1"), ("test", 1, 2, 3)):
        with pytest.raises(TypeError):
            create(*arguments)
    for kind in (native.Memory, native.Region):
        with pytest.raises(TypeError, match="^use "):
            kind()
    made = create("n\0ul \udcff" + "x" * 1000, 1)
    for view, error in (("rw", ValueError), (None, TypeError), (b"ro", TypeError), ("", ValueError)):
        with pytest.raises(error, match='"cow"'):
            made.map(view)
    for kind in (native.Memory, native.Region, native.Array):
        with pytest.raises(TypeError):
            type("Other", (kind,), {})


def test_memory_that_is_closed_says_so_and_what_is_mapped_stays():
    before = descriptors()
    made = memory(b"stays")
    region = made.map("ro")
    made.close()
    made.close()
    assert descriptors() == before and bytes(region) == b"stays" and "closed" in repr(made)
    for use in (made.fileno, made.seal, lambda: made.map("ro"), lambda: made.nbytes, lambda: made.sealed, lambda: made.huge):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_a_descriptor_is_taken_over_and_left_to_the_caller_after_an_error():
    made = memory(b"content")
    fd = os.dup(made.fileno())
    os.set_inheritable(fd, True)
    adopted = native.Memory.adopt(fd)
    assert (adopted.fileno(), adopted.nbytes, adopted.sealed) == (fd, 7, True)
    assert not os.get_inheritable(fd) and bytes(adopted.map("cow")) == b"content"
    del adopted
    with pytest.raises(OSError):
        os.fstat(fd)
    with open(__file__, "rb") as file:
        with pytest.raises(ValueError, match="isn't a segment"):
            native.Memory.adopt(file.fileno())
        os.fstat(file.fileno())
    for wrong, error in ((-1, ValueError), (2**40, OverflowError), ("1", TypeError)):
        with pytest.raises(error):
            native.Memory.adopt(wrong)


def test_what_is_sealed_cannot_be_written_and_nothing_is_sealed_under_a_writer():
    made = native.Memory.create("test", 100)
    region = made.map("shared")
    with pytest.raises(OSError) as busy:
        made.seal()
    assert busy.value.errno == errno.EBUSY and "100 bytes" in str(busy.value)
    view = memoryview(region)
    del region
    with pytest.raises(OSError):
        made.seal()
    view.release()
    made.seal()
    made.seal()
    with pytest.raises(PermissionError, match="sealed"):
        made.map("shared")
    with pytest.raises(PermissionError):
        os.pwrite(made.fileno(), b"x", 0)


CHILD = """
import sys, pergpu._share as native
made = native.Memory.adopt(int(sys.argv[1]))
with memoryview(made.map(sys.argv[2])) as view:
    print(bytes(view[:6]).decode())
    view[:6] = b"child!"
"""


def test_a_private_view_is_seen_by_nobody_else_and_a_shared_one_by_all():
    made = native.Memory.create("test", 10000)
    mine = memoryview(made.map("shared"))
    mine[:6] = b"parent"
    cow = memoryview(made.map("cow"))
    assert python(CHILD, made.fileno(), "cow", fds=[made.fileno()]) == "parent\n"
    assert bytes(mine[:6]) == bytes(cow[:6]) == b"parent"
    cow[:6] = b"mine!!"
    assert bytes(mine[:6]) == b"parent"
    assert python(CHILD, made.fileno(), "shared", fds=[made.fileno()]) == "parent\n"
    assert bytes(mine[:6]) == b"child!" and bytes(cow[:6]) == b"mine!!"


def test_a_write_to_a_read_only_view_ends_the_process():
    made = memory(b"content")
    region = made.map("ro")
    assert memoryview(region).readonly
    with pytest.raises(TypeError):
        memoryview(region)[0] = 1
    text = "import sys, ctypes, pergpu._share as n; ctypes.memset(n.Memory.adopt(int(sys.argv[1])).map('ro').address, 1, 1)"
    done = subprocess.run([sys.executable, "-c", text, str(made.fileno())], pass_fds=[made.fileno()], capture_output=True)
    assert done.returncode == -signal.SIGSEGV, done.stderr


def test_a_region_is_mapped_as_long_as_there_is_a_buffer_of_it():
    region = memory(bytes(9000)).map("cow")
    views = [memoryview(region), memoryview(region)[5:], native.Array(region, 8, (4,), "int64")]
    del region
    while views:
        assert len(maps()) == 1
        views.pop()
    assert maps() == []


def test_a_part_of_a_file_begins_at_any_byte_and_is_never_beyond_its_end(tmp_path):
    content = bytes(i % 251 for i in range(3 * mmap.PAGESIZE + 5))
    path = tmp_path / "file"
    path.write_bytes(content)
    fd = os.open(str(path), os.O_RDONLY)
    for offset in (0, 1, mmap.PAGESIZE - 1, mmap.PAGESIZE, 2 * mmap.PAGESIZE + 17, len(content) - 1):
        for size in {1, len(content) - offset}:
            region = native.map_file(fd, offset, size, "ro")
            assert bytes(region) == content[offset : offset + size] and region.nbytes == size
    for offset, size in ((0, len(content) + 1), (len(content), 1), (1, len(content)), (0, 0), (2**62, 2**62), (-1, 5), (0, -5), (2**80, 1)):
        with pytest.raises(ValueError):
            native.map_file(fd, offset, size, "ro")
    with pytest.raises(PermissionError, match=f"descriptor {fd}"):
        native.map_file(fd, 0, 1, "shared")
    mine = native.map_file(fd=fd, offset=3, nbytes=4, view="cow")
    memoryview(mine)[:] = b"abcd"
    os.close(fd)
    assert path.read_bytes() == content and bytes(mine) == b"abcd"
    with pytest.raises(OSError) as closed:
        native.map_file(fd, 0, 1, "ro")
    assert closed.value.errno == errno.EBADF
    with open("/dev/zero", "rb") as device, pytest.raises(ValueError, match="regular"):
        native.map_file(device.fileno(), 0, 1, "ro")


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_array_is_what_lies_there(dtype):
    size, format = DTYPES[dtype]
    region = memory(bytes(range(200))).map("ro")
    made = native.Array(region, 16, (2, 3), dtype)
    assert (made.shape, made.dtype, made.ndim, made.nbytes, len(made), made.readonly) == ((2, 3), dtype, 2, 6 * size, 2, True)
    view = memoryview(made)
    assert (view.format, view.itemsize, view.shape, view.strides, view.readonly) == (format, size, (2, 3), (3 * size, size), True)
    assert view.c_contiguous and view.tobytes() == bytes(range(16, 16 + 6 * size))
    interface = made.__array_interface__
    assert interface["shape"] == (2, 3) and interface["data"] == (region.address + 16, True) and interface["version"] == 3
    assert dtype in repr(made) and "(2, 3)" in repr(made)


def test_arrays_without_dimensions_and_without_elements():
    none = array((), "float64")
    assert (none.shape, none.nbytes, memoryview(none).ndim) == ((), 8, 0) and memoryview(none).tobytes() == bytes(range(8))
    with pytest.raises(TypeError, match="no length"):
        len(none)
    region = memory(bytes(8)).map("cow")
    for shape in ((0,), (3, 0), (0, 2**40), (2**30, 0, 2**20)):
        empty = native.Array(region, 8, shape, "float32")
        assert (empty.shape, empty.nbytes, len(empty)) == (shape, 0, shape[0])
        assert memoryview(empty).tobytes() == b"" and memoryview(empty).shape == shape
    assert native.Array(b"", 0, [0], "int8").readonly
    assert native.Array(bytearray(4), 0, iter([2, 2]), "int8").shape == (2, 2)
    assert native.Array(bytes(1), 0, [1] * 64, "int8").ndim == 64


def test_what_does_not_fit_is_told_with_numbers():
    region = memory(bytes(100)).map("cow")
    for offset, shape, dtype, words in (
        (0, (101,), "int8", "101 bytes at offset 0 .* 100 bytes"),
        (96, (2,), "float32", "8 bytes at offset 96"),
        (101, (0,), "int8", "at offset 101"),
        (2, (1,), "float32", "offset 2 .*multiple of 4"),
        (4, (1,), "complex128", "multiple of 8"),
        (-1, (1,), "int8", "offset is -1"),
        (0, (-1,), "int8", "dimension is -1"),
        (0, (2**70,), "int8", str(2**70)),
        (0, (2**62, 2), "int8", "more than"),
        (0, (2**32, 2**32), "int8", "more than"),
        (0, (0, 2**32, 2**32), "int8", "more than"),
        (0, (2**61,), "float32", "more than"),
        (0, (1,) * 65, "int8", "65 dimensions"),
        (0, (1,), "float", "float.*float32, .*float8_e5m2"),
    ):
        with pytest.raises(ValueError, match=words):
            native.Array(region, offset, shape, dtype)
    for arguments in (
        (),
        (5, 0, (1,), "int8"),
        ("text", 0, (1,), "int8"),
        (region, 0.5, (1,), "int8"),
        (region, 0, 1, "int8"),
        (region, 0, ("1",), "int8"),
        (region, 0, (1,), int),
        (region, 0, (1,), "int8", 5),
        (region, 0, (1,), "int8", None, None),
    ):
        with pytest.raises(TypeError):
            native.Array(*arguments)


class Buffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t)]
    _fields_ += [("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p)]
    _fields_ += [(name, ctypes.POINTER(ctypes.c_ssize_t)) for name in ("shape", "strides", "suboffsets")] + [("internal", ctypes.c_void_p)]


def test_a_consumer_gets_of_the_buffer_what_it_asks_for():
    made, flat = array((2, 3), "int16"), array((6,), "int16")

    def ask(array, flags):
        view = Buffer()
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(array), ctypes.byref(view), flags)
        told = (view.ndim, view.format, bool(view.shape), bool(view.strides), view.itemsize, view.len)
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
        return told

    assert ask(made, 0) == (1, None, False, False, 2, 12)  # PyBUF_SIMPLE
    assert ask(made, 0x8) == (2, None, True, False, 2, 12)  # ND
    assert ask(made, 0x18 | 0x4) == (2, b"h", True, True, 2, 12)  # STRIDES | FORMAT
    assert ask(made, 0x38 | 0x1) == (2, None, True, True, 2, 12)  # C_CONTIGUOUS | WRITABLE
    assert ask(made, 0x98) == ask(flat, 0x98)[:0] + (2, None, True, True, 2, 12)  # ANY_CONTIGUOUS
    assert ask(flat, 0x58) == (1, None, True, True, 2, 12)  # F_CONTIGUOUS
    with pytest.raises(BufferError, match="row by row"):
        ask(made, 0x58)
    with pytest.raises(BufferError, match="read-only"):
        ask(array((6,), "int16", "ro"), 0x1)


def test_any_object_with_a_buffer_is_a_base_and_is_kept():
    base = bytearray(8)
    made = native.Array(base, 4, (4,), "uint8")
    memoryview(made)[0] = 7
    assert base[4] == 7 and not made.readonly
    with pytest.raises(BufferError):
        base.append(1)  # it would move
    del made
    base.append(1)
    again = native.Array(native.Array(memory(b"12345678").map("ro"), 0, (8,), "uint8"), 2, (2, 3), "int8")
    assert memoryview(again).tobytes() == b"345678" and again.readonly
    with pytest.raises(BufferError):
        native.Array(memoryview(bytes(8))[::2], 0, (1,), "uint8")


@pytest.mark.parametrize("first", ["array", "view", "region"])
def test_the_end_of_all_that_was_made_of_it_is_told_once(first):
    told = []
    region = memory(bytes(8)).map("cow")
    made = native.Array(region, 0, (8,), "uint8", lambda: told.append(len(maps())))
    kept = {"region": region, "array": made, "view": memoryview(made)[2:]}
    del region, made
    del kept[first]
    gc.collect()
    assert told == [] and len(maps()) == 1
    kept.clear()
    assert told == [1] and maps() == []


def test_nobody_is_told_of_an_array_that_could_not_be_made():
    told = []
    with pytest.raises(ValueError):
        native.Array(bytes(3), 0, (4,), "uint8", lambda: told.append(1))
    gc.collect()
    assert told == []


def test_what_on_release_raises_goes_to_the_hook_and_no_further(monkeypatch):
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", lambda given: raised.append(given.exc_type))
    made = array((1,), "int8", on_release=lambda: 1 / 0)
    try:
        raise KeyError("another") from None
    except KeyError as error:
        del made  # while one is being handled
        assert error.args == ("another",)
    assert raised == [ZeroDivisionError]


class Owner:
    """Holds an array, what was made of it, and what is to be called at its end: a cycle."""

    def __init__(self, told):
        self.array = array((4,), "uint8", on_release=lambda: told(self))
        self.view = memoryview(self.array)


def test_garbage_in_a_cycle_is_told_of_once():
    told = []
    Owner(lambda owner: told.append(type(owner.array)))
    assert told == []
    gc.collect()
    assert told == [native.Array] and maps() == []


def test_who_is_saved_from_the_garbage_finds_the_memory_given_back():
    saved = []
    Owner(lambda owner: saved.append(owner.array))
    gc.collect()
    for use in (memoryview, lambda array: array.__dlpack__(), lambda array: array.__array_interface__):
        with pytest.raises(BufferError, match="has been released"):
            use(saved[0])
    saved.clear()
    gc.collect()
    assert maps() == []


def test_the_last_one_may_go_in_another_thread():
    told = []
    for _ in range(50):
        views = [memoryview(array((100,), "float32", on_release=lambda: told.append(threading.get_ident())))]
        thread = threading.Thread(target=views.clear)
        thread.start()
        thread.join()
        assert told.pop() == thread.ident and told == []
    assert maps() == []


def test_threads_that_map_and_let_go_do_not_meet():
    made = memory(bytes(1 << 22))
    errors = []

    def use():
        try:
            for _ in range(200):
                native.Array(made.map("ro"), 64, (8, 8), "float32", lambda: None)
                native.Memory.create("test", 1 << 20).map("shared")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and maps() == []


def test_a_forked_process_does_not_give_back_what_its_parent_uses():
    text = """
import os, pergpu._share as native
told = []
def make():
    return native.Array(bytearray(8), 0, (8,), "uint8", lambda: told.append(os.getpid()))
made = make()
child = os.fork()
if child == 0:
    made = None
    mine = make()
    assert told == []
    mine = None
    assert told == [os.getpid()]
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7 and told == []
made = None
assert told == [os.getpid()]
"""
    assert python(text) == ""


@pytest.mark.parametrize("kept", ["made", "memoryview(made)", "made.__dlpack__()", "[made, memoryview(made)]"])
def test_the_end_of_the_interpreter_is_no_crash(kept):
    text = f"""
import pergpu._share as native
region = native.Memory.create("test", 1 << 21).map("cow")
class Owner: pass
def told(): print("told", native.Array)
made = native.Array(region, 0, (8, 8), "float32", told)
owner = Owner()
owner.kept = {kept}
owner.self = owner
native.Array.__doc__
"""
    assert python(text).count("told") <= 1


def allocated():
    """Bytes of malloc() that are in use, in the main arena; 0 where nobody tells."""

    class Told(ctypes.Structure):
        _fields_ = [(f"field{i}", ctypes.c_size_t) for i in range(10)]

    tell = getattr(ctypes.CDLL(None), "mallinfo2", Told)  # glibc 2.33
    tell.restype = Told
    return tell().field7


def test_nothing_is_left_behind():
    def everything():
        made = memory(bytes(range(100)), 1 << 16)
        adopted = native.Memory.adopt(os.dup(made.fileno()))
        for view in ("cow", "ro"):
            region = adopted.map(view)
            whole = native.Array(region, 0, (16, 16), "float32", lambda: None)
            for part in (memoryview(whole), whole.__dlpack__(copy=True), whole.__dlpack__(max_version=(1, 0)), whole.shape, whole.__array_interface__):
                del part
            repr((made, region, whole, whole.dtype, made.sealed, whole.__dlpack_device__()))
        for wrong in (lambda: native.Array(region, 1, (5,), "int64"), lambda: native.Array(region, 0, (1,), "x"), lambda: made.map("shared")):
            with pytest.raises((ValueError, OSError)):
                wrong()
        with open(__file__, "rb") as file:
            address(native.Array(native.map_file(file.fileno(), 3, 100, "ro"), 0, (5, 5), "int8"))

    def counts():
        gc.collect()
        return [sys.getrefcount(kind) for kind in (native.Memory, native.Region, native.Array)], descriptors(), maps()

    for _ in range(100):
        everything()
    before, blocks, size = counts(), sys.getallocatedblocks(), allocated()
    for _ in range(1000):
        everything()
    assert counts() == before
    assert sys.getallocatedblocks() - blocks < 500 and allocated() - size < 50000
