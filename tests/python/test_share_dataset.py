"""Data that is there once: loaded by one, seen by all, hurt by nobody, gone with the last."""
import collections
import contextlib
import inspect
import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import warnings

import pytest

numpy = pytest.importorskip("numpy")
share = pytest.importorskip("pergpu.share", reason="the compiled part of the package is not built")

PACKAGE = pathlib.Path(share.__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("OF", f" of {tmp_path}")
    monkeypatch.setattr(share._dataset, "_seen", {})


def own(key):
    """A key of this test's own: all processes of a user that ask for one meet, wherever they look."""
    return key + os.environ["OF"]


class Other:
    """A process of Python that does what it is told, a line at a time."""

    def __init__(self, tmp_path, code):
        code = "import os, sys, json, numpy\nfrom pergpu import share\n" + inspect.getsource(own) + textwrap.dedent(code)
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGE), os.environ.get("PYTHONPATH", "")])},
        )
        self.pid = self._process.pid

    def says(self):
        line = self._process.stdout.readline()
        assert line, f"it ended with {self._process.wait()}"
        return json.loads(line)

    def goes_on(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def ends(self):
        self._process.stdin.close()
        with self._process:
            return self._process.wait(30)

    def killed(self):
        self._process.kill()
        return self.ends()


def same_function(code, name):
    """The function that an Other has, which was told this code.  What is imported beside it shows in its bytecode."""
    module = {"__name__": "__main__"}
    exec(compile("import os, sys, json, numpy\n" + textwrap.dedent(code), "<string>", "exec"), module)
    return module[name]


LOADING = """
    def load():
        with open("loads", "a") as file:
            file.write("x")
        return {"x": numpy.arange(100_000, dtype="float32"), "names": [f"n{i}" for i in range(1000)]}
"""
USING = LOADING + """
    data = share.dataset(own("all"), load)
    print(json.dumps([float(data["x"].numpy().sum()), data["names"][-1]]), flush=True)
    sys.stdin.readline()
"""
SUM = float(numpy.arange(100_000, dtype="float32").sum())


def test_it_is_loaded_once_for_all_that_ask_at_once(tmp_path):
    others = [Other(tmp_path, USING) for _ in range(8)]
    assert [other.says() for other in others] == 8 * [[SUM, "n999"]]
    assert (tmp_path / "loads").read_text() == "x"
    assert [other.ends() for other in others] == 8 * [0]


def test_it_goes_from_hand_to_hand_and_is_gone_with_the_last(tmp_path):
    first = Other(tmp_path, USING)
    first.says()
    second = Other(tmp_path, USING)
    second.says()
    first.killed()
    third = Other(tmp_path, USING)  # the hint is that of the second, or nobody's
    assert third.says() == [SUM, "n999"]
    assert (tmp_path / "loads").read_text() == "x"
    assert segments_of([second.pid, third.pid])
    second.killed(), third.killed()
    fourth = Other(tmp_path, USING)
    fourth.says()
    assert (tmp_path / "loads").read_text() == "xx"
    fourth.ends()


def segments_of(pids):
    links = set()
    for pid in pids:
        for number in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # that of the listing
                links.add(os.readlink(f"/proc/{pid}/fd/{number}"))
    return {link for link in links if "memfd:pergpu" in link}


def test_where_the_loading_one_is_killed_the_next_one_loads(tmp_path):
    code = """
        def load():
            print(json.dumps(os.getpid()), flush=True)
            sys.stdin.readline()
            return numpy.arange(10)
        print(json.dumps(share.dataset(own("slow"), load).numpy().tolist()), flush=True)
    """
    first = Other(tmp_path, code)
    assert first.says() == first.pid
    second = Other(tmp_path, code)
    first.killed()
    assert second.says() == second.pid
    second.goes_on()
    assert second.says() == list(range(10))
    assert second.ends() == 0


def test_what_loading_raises_is_raised_and_the_next_one_may_load():
    def failing():
        raise RuntimeError("no such data")

    with pytest.raises(RuntimeError, match="no such data"):
        share.dataset(own("failing"), failing)
    assert share.dataset(own("failing"), lambda: numpy.arange(3)).numpy().tolist() == [0, 1, 2]


def test_what_one_writes_nobody_else_sees(tmp_path):
    other = Other(tmp_path, USING + "    print(json.dumps(float(data['x'].numpy().sum())), flush=True)\n")
    other.says()
    load = same_function(LOADING, "load")
    data = share.dataset(own("all"), load)
    array = data["x"].numpy()
    assert array.flags.writeable
    array[:] = 0
    assert share.dataset(own("all"), load)["x"].numpy().sum() == SUM, "another view of the same process, too"
    assert (tmp_path / "loads").read_text() == "x"
    other.goes_on()
    assert other.says() == SUM
    other.ends()


def test_who_writes_into_a_read_only_view_is_shown(tmp_path):
    other = Other(
        tmp_path,
        """
        import ctypes
        data = share.dataset(own("x"), lambda: numpy.zeros(10), view="ro").numpy()
        assert not data.flags.writeable
        ctypes.memset(data.ctypes.data, 1, 8)
        """,
    )
    assert other.ends() == -signal.SIGSEGV


def test_a_file_whose_arrays_lie_in_it_is_mapped(tmp_path):
    numpy.save(tmp_path / "a.npy", numpy.arange(1_000_000.0))
    array = share.dataset(tmp_path / "a.npy")
    assert (array.numpy() == numpy.arange(1_000_000.0)).all()
    assert not segments_of([os.getpid()]), "the page cache is the one copy"
    array.numpy()[0] = 7
    assert numpy.load(tmp_path / "a.npy")[0] == 0


@pytest.mark.parametrize("save", [numpy.savez, numpy.savez_compressed])
def test_files_that_cannot_be_mapped_are_loaded_once(tmp_path, save):
    values = {"x": numpy.arange(1000.0).reshape(10, 100), "y": numpy.array(3, dtype="int8"), "z": numpy.zeros((0, 4))}
    save(tmp_path / "a.npz", **values)
    data = share.dataset(tmp_path / "a.npz")
    assert {name: (array.dtype, array.shape) for name, array in data.items()} == {
        name: (value.dtype.name, value.shape) for name, value in values.items()
    }
    assert all((data[name].numpy() == values[name]).all() for name in values)


@pytest.mark.parametrize("value", [numpy.asfortranarray(numpy.arange(12.0).reshape(3, 4)), numpy.arange(5).astype(">i4")])
def test_other_orders_of_bytes_are_turned(tmp_path, value):
    numpy.save(tmp_path / "a.npy", value)
    array = share.dataset(tmp_path / "a.npy")
    assert (array.numpy() == value).all() and array.numpy().flags.c_contiguous


def test_a_file_of_nothing_but_values_is_mapped(tmp_path):
    values = numpy.arange(1200, dtype="uint16")
    values.tofile(tmp_path / "tokens.bin")
    tokens = share.dataset(tmp_path / "tokens.bin", dtype="uint16", shape=(-1,))
    assert (tokens.shape, tokens.dtype) == ((1200,), "uint16") and (tokens.numpy() == values).all()
    rows = share.dataset(own("rows"), tmp_path / "tokens.bin", dtype="uint16", shape=(-1, 100), offset=400)
    assert (rows.numpy() == values[200:].reshape(10, 100)).all()
    assert not segments_of([os.getpid()]), "the page cache is the one copy"
    rows.numpy()[0, 0] = 7
    assert numpy.fromfile(tmp_path / "tokens.bin", "uint16")[200] == 200
    assert share.dataset(tmp_path / "tokens.bin", dtype="uint8").shape == (2400,)


def test_values_at_odd_places_are_brought_to_even_ones(tmp_path):
    (tmp_path / "odd.bin").write_bytes(b"x" + numpy.arange(5.0).tobytes())
    array = share.dataset(tmp_path / "odd.bin", dtype="float64", offset=1)
    assert array.numpy().tolist() == [0, 1, 2, 3, 4] and segments_of([os.getpid()])
    assert share.dataset(tmp_path / "odd.bin", dtype="int64", offset=1).dtype == "int64", "the same place, other values"


def test_values_that_the_file_does_not_have_are_refused(tmp_path):
    (tmp_path / "a.bin").write_bytes(bytes(24))
    with pytest.raises(share.BadFile, match="a.bin: 24 bytes are not a whole number of complex128"):
        share.dataset(tmp_path / "a.bin", dtype="complex128")
    with pytest.raises(share.BadFile, match="16 bytes, but the file has 24"):
        share.dataset(tmp_path / "a.bin", dtype="int16", shape=(2, 4))
    with pytest.raises(share.BadFile, match="the suffix is '.bin'; expected .* or a dtype for a raw file, such as dtype=.uint16"):
        share.dataset(tmp_path / "a.bin")
    with pytest.raises(TypeError, match="pass dtype, too"):
        share.dataset(tmp_path / "a.bin", shape=(3,))
    with pytest.raises(TypeError, match="pass dtype, too"):
        share.dataset(tmp_path / "a.npy", offset=8)
    with pytest.raises(TypeError, match='dtype is <class .*; expected a name like "uint16"'):
        share.dataset(tmp_path / "a.bin", dtype=numpy.uint16)
    with pytest.raises(TypeError, match="a function's arrays have their own"):
        share.dataset(own("x"), bytes, dtype="uint8")


def test_a_file_that_was_written_anew_is_other_data(tmp_path):
    for factor in (1, 2):
        numpy.savez(tmp_path / "new.npz", x=factor * numpy.arange(10))
        os.replace(tmp_path / "new.npz", tmp_path / "a.npz")
        assert share.dataset(tmp_path / "a.npz")["x"].numpy()[9] == factor * 9


def test_what_cannot_be_shared_is_refused_with_its_place(tmp_path):
    numpy.save(tmp_path / "objects.npy", numpy.array([{"a": 1}]))
    with pytest.raises(share.BadFile, match="objects.npy"):
        share.dataset(tmp_path / "objects.npy")
    with pytest.raises(TypeError, match="source is int; expected a file or a function"):
        share.dataset(own("x"), 3)
    with pytest.raises(ValueError, match='view is .writable.; expected "cow", "ro" or "shared"'):
        share.dataset(own("x"), dict, view="writable")
    with pytest.raises(FileNotFoundError):
        share.dataset(tmp_path / "nothing.npy")


@pytest.mark.parametrize(
    "value",
    [
        {"a": (1, 2.5, None, True, "ä"), "b": {"c": []}},
        [{"id": i, "boxes": list(range(i))} for i in range(300)],
        {1: "keys that are no strings"},
        {"set": {1, 2}},
        (),
    ],
    ids=range(5),
)
def test_the_shape_of_a_value_stays(value):
    def plain(found):
        if isinstance(found, share.SharedList):
            return list(found)
        if isinstance(found, dict):
            return {name: plain(one) for name, one in found.items()}
        return tuple(plain(one) for one in found) if type(found) is tuple else found

    assert plain(share.dataset(own("value"), lambda: value)) == value


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float32", "complex128"])
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (3, 1, 7)])
def test_arrays_of_every_kind_come_back(dtype, shape):
    value = (numpy.arange(int(numpy.prod(shape))) % 2).reshape(shape).astype(dtype)
    for given in (value, numpy.asfortranarray(value), value.astype(value.dtype.newbyteorder())):
        share._dataset._seen.clear()
        found = share.dataset(own(f"{dtype}{shape}{given.flags.c_contiguous}{given.dtype.byteorder}"), lambda: given)
        assert (found.dtype, found.shape) == (dtype, given.shape) and (found.numpy() == given).all()


def test_tensors_are_shared_too():
    torch = pytest.importorskip("torch")
    values = [torch.arange(6.0).reshape(2, 3).t(), torch.tensor(3, dtype=torch.int64), torch.zeros(4, dtype=torch.bfloat16)]
    found = share.dataset(own("tensors"), lambda: values)
    assert [array.dtype for array in found] == ["float32", "int64", "bfloat16"]
    assert all(torch.equal(array.torch(), value) for array, value in zip(found, values))


def test_a_folder_of_somebody_else_is_not_used(tmp_path):
    (tmp_path / f"pergpu-share-{os.getuid()}").mkdir()
    (tmp_path / f"pergpu-share-{os.getuid()}").chmod(0o777)
    with pytest.raises(PermissionError, match="others may write in it"):
        share.dataset(own("x"), lambda: numpy.zeros(1))


def test_what_is_shared_for_writing_is_seen_by_all_that_asked_for_it_so(tmp_path, monkeypatch):
    numpy.save(tmp_path / "a.npy", numpy.zeros(4))
    other = Other(
        tmp_path,
        """
        a = share.dataset("a.npy", view="shared").numpy()
        a[0] = 7
        def make():
            return numpy.zeros(3)
        made = share.dataset(own("made"), make, view="shared").numpy()
        made[2] = 5
        print(json.dumps("written"), flush=True)
        sys.stdin.readline()
        print(json.dumps([a.tolist(), made.tolist()]), flush=True)
        """,
    )
    assert other.says() == "written"
    monkeypatch.chdir(tmp_path)
    a = share.dataset("a.npy", view="shared").numpy()
    make = same_function("def make():\n    return numpy.zeros(3)\n", "make")
    made = share.dataset(own("made"), make, view="shared").numpy()
    assert a.tolist() == [7, 0, 0, 0] and made.tolist() == [0, 0, 5]
    assert share.dataset("a.npy").numpy().tolist() == numpy.load("a.npy").tolist() == [0, 0, 0, 0]
    apart = share.dataset(own("made"), make)
    a[1] = made[0] = 9
    other.goes_on()
    assert other.says() == [[7, 9, 0, 0], [9, 0, 5]]
    assert other.ends() == 0
    assert apart.numpy().tolist() == [0, 0, 0]


@pytest.mark.parametrize("view", ["cow", "shared"])
def test_what_was_left_half_made_is_not_taken(tmp_path, view):
    child = tmp_path / "child"
    other = Other(
        tmp_path,
        f"""
        from pergpu.share import _content
        def killed(into):
            into[:] = b"1" * len(into)
            if os.fork() == 0:
                open({str(child)!r} + ".part", "w").write(str(os.getpid()))
                os.rename({str(child)!r} + ".part", {str(child)!r})
                sys.stdin.readline()
                os._exit(0)
            while not os.path.exists({str(child)!r}):
                pass
            os.kill(os.getpid(), 9)
        share.dataset(own("x"), lambda: _content.Piece("float64", (3,), killed), view={view!r})
        """,
    )
    other._process.wait(30)
    assert os.path.exists(f"/proc/{child.read_text()}/exe"), "the child has the memory still"
    assert share.dataset(own("x"), lambda: numpy.arange(3.0), view=view).numpy().tolist() == [0, 1, 2]
    assert other.ends() == -9


def test_no_huge_pages_are_told_of():
    with open("/proc/meminfo") as file:
        if any(line.startswith("HugePages_Free:") and int(line.split()[1]) for line in file):
            pytest.skip("the pool has some")
    with pytest.warns(RuntimeWarning, match=r"'x of .*' is in normal pages: it needs 2 huge pages of .*vm\.nr_hugepages=2"):
        data = share.dataset(own("x"), lambda: numpy.ones(3 << 20, "uint8"), huge_pages=True)
    assert data.numpy().sum() == 3 << 20


class Quantity(numpy.ndarray):
    unit = "km"


class Names(list):
    pass


GIVEN = {}


def test_of_a_type_that_comes_back_as_a_plain_one_a_warning_tells():
    arrays = [numpy.arange(3.0)]
    matrix = arrays[0].view(numpy.recarray)
    for value in (arrays[0].view(Quantity), matrix, Names(arrays), Names(["a"] * 101), collections.defaultdict(list, x=arrays[0])):
        GIVEN["it"] = value
        with pytest.warns(RuntimeWarning, match=f"a {type(value).__name__} is shared as a (plain array|list|dict): its type") as told:
            share.dataset(own(f"typed {type(value).__name__} {len(value)}"), lambda: {"in": GIVEN["it"]})
        assert len(told) == 1 and told[0].filename == __file__
    records = numpy.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i, value in enumerate((collections.OrderedDict(x=arrays[0]), arrays, {1: arrays[0]}, records, {})):
            GIVEN["it"] = value
            share.dataset(own(f"plain {i}"), lambda: GIVEN["it"])


def test_a_tensor_that_is_not_one_block_of_numbers_is_refused():
    torch = pytest.importorskip("torch")
    sparse = GIVEN["it"] = torch.eye(3).to_sparse()
    with pytest.raises(TypeError, match=r"a tensor of torch.sparse_coo cannot be shared .* pass `.to_dense\(\)`"):
        share.dataset(own("sparse"), lambda: {"x": GIVEN["it"]})
    with pytest.raises(TypeError, match="w: a tensor of torch.sparse_coo cannot be shared"):
        share.parameters({"w": sparse}, own("sparse"))
    share.dataset(own("parameter"), lambda: torch.nn.Parameter(torch.ones(3)))


def test_a_masked_array_is_refused_wherever_it_would_lose_its_mask():
    masked = numpy.ma.masked_array([1.0, -999.0, 3.0], mask=[0, 1, 0])
    with pytest.raises(TypeError, match="mask would be lost"):
        share.dataset(own("masked"), lambda: {"x": [masked]})
    with pytest.raises(TypeError, match="mask would be lost"):
        share.parameters({"w": masked}, own("masked"))
    with pytest.raises(TypeError, match="mask would be lost"):
        share.Loader(masked, batch_size=1)
    with share.Channel(shape=(3,), dtype="float64") as channel, channel.producer() as out:
        out.put(numpy.zeros(3))
        with pytest.raises(TypeError, match="mask would be lost"):
            out.put(masked)
        out.put(numpy.zeros(3))


@pytest.mark.parametrize("make", [
    lambda: {0: numpy.ones(1 << 18)},
    lambda: numpy.zeros(1 << 18, dtype=[("a", "f8")]),
    lambda: numpy.zeros(1 << 18, dtype="M8[s]"),
    lambda: numpy.zeros(1 << 18, dtype="S8"),
])  # fmt: skip
def test_what_each_process_would_have_for_itself_is_warned_of(make):
    with pytest.warns(RuntimeWarning, match="each process gets a separate copy of [12] MiB") as caught:
        share.dataset(own("large"), make)
    assert caught[0].filename == __file__


def test_small_objects_and_arrays_of_numbers_are_no_warning(recwarn):
    share.dataset(own("small"), lambda: ({0: numpy.ones(9)}, {"x": numpy.ones(1 << 20)}, numpy.zeros(1 << 18)))
    assert not recwarn.list
