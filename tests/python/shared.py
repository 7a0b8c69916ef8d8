"""What tests of pergpu._share have in common: the module, and looks at this process."""
import os
import subprocess
import sys

import pytest

try:
    import pergpu._share as native
except ImportError as error:  # other errors of it are no reason to skip
    if "is missing (looked for" not in str(error):
        raise
    pytest.skip(str(error), allow_module_level=True)

DTYPES = {  # name: bytes, format of the buffer protocol
    "bool": (1, "?"),
    "int8": (1, "b"),
    "int16": (2, "h"),
    "int32": (4, "i"),
    "int64": (8, "l"),
    "uint8": (1, "B"),
    "uint16": (2, "H"),
    "uint32": (4, "I"),
    "uint64": (8, "L"),
    "float16": (2, "e"),
    "float32": (4, "f"),
    "float64": (8, "d"),
    "complex64": (8, "Zf"),
    "complex128": (16, "Zd"),
    "bfloat16": (2, "2x"),
    "float8_e4m3fn": (1, "1x"),
    "float8_e5m2": (1, "1x"),
}
NUMBERS = [name for name in DTYPES if not name.startswith(("bfloat", "float8"))]  # that numpy knows


def memory(content=b"", size=None):
    """A sealed Memory with that content."""
    made = native.Memory.create("test", size or max(len(content), 1))
    with memoryview(made.map("shared")) as view:
        view[: len(content)] = content
    made.seal()
    return made


def array(shape, dtype, view="cow", on_release=None):
    """An Array of new memory whose bytes count: 0, 1, … 100, 0, …"""
    size = DTYPES[dtype][0]
    for count in shape:
        size *= count
    region = memory(bytes(i % 101 for i in range(size))).map(view)
    return native.Array(region, 0, shape, dtype, on_release)


def address(array):
    return array.__array_interface__["data"][0]


def descriptors():
    return set(os.listdir("/proc/self/fd"))


def maps():
    """The lines of /proc/self/maps that are of segments of these tests."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        return [line for line in file if "pergpu:test" in line]


def python(text, *arguments, fds=(), **options):
    """What another Python prints; its exit status is 0."""
    command = [sys.executable, "-c", text, *map(str, arguments)]
    done = subprocess.run(command, pass_fds=fds, capture_output=True, text=True, timeout=120, **options)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout
