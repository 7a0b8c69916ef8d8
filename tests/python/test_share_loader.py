"""Batches of shared data: each row once an epoch, in an order that can be computed, gone on with
anywhere, and never filled anew while somebody has them."""
import asyncio
import ctypes
import gc
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import weakref

import pytest

numpy = pytest.importorskip("numpy")
share = pytest.importorskip("pergpu.share", reason="the compiled part of the package is not built")

from pergpu.share import _budget, _loader  # noqa: E402

PACKAGE = pathlib.Path(share.__file__).parent.parent.parent
ROWS = 103
IMAGES = (numpy.arange(40 * 9 * 8 * 3) % 251).reshape(40, 9, 8, 3).astype("uint8")
MASK = (1 << 64) - 1


def rows(count=ROWS):
    return {"at": numpy.arange(count), "x": numpy.arange(count * 3, dtype="float32").reshape(count, 3)}


def loader_of(data=None, **options):
    return share.Loader(rows() if data is None else data, **{"batch_size": 10, "output": "numpy", **options})


def places(batches):
    """The rows that were given out, copied, for a batch is filled anew."""
    found = []
    for batch in batches:
        assert (batch["x"][:, 0] == 3 * batch["at"]).all(), "the arrays of a batch belong together"
        found += batch["at"].tolist()
    return found


def own_threads():
    gc.collect()  # of the loaders of other tests
    names = []
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/comm") as file:
                names.append(file.read().strip())
        except OSError:  # it has ended
            pass
    return names.count("pergpu-loader")


def mixed(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def order(size, seed, epoch):
    """The same as src/share/permutation.cc, written down once more: it is a promise."""
    height = next(i for i in range(1, size + 1) if i * i >= size)
    width = -(-size // height)
    key, keys = mixed(mixed(seed) ^ epoch), []
    for _ in range(8):
        key = mixed(key)
        keys.append(key)

    def one(i):
        while True:
            row, column = divmod(i, width)
            for r in range(0, 8, 2):
                column = (column + (mixed(keys[r] ^ row) * width >> 64)) % width
                row = (row + (mixed(keys[r + 1] ^ column) * height >> 64)) % height
            i = row * width + column
            if i < size:
                return i

    return [one(i) for i in range(size)]


@pytest.mark.parametrize("seed", [0, 7, MASK])
def test_the_order_is_that_of_seed_and_epoch(seed):
    loader = loader_of(seed=seed)
    for epoch in range(3):
        assert places(loader) == order(ROWS, seed, epoch)
    assert sorted(order(ROWS, seed, 0)) == list(range(ROWS))


def test_without_a_shuffle_it_is_that_of_the_rows():
    assert places(loader_of(shuffle=False)) == list(range(ROWS))


def test_the_rest_of_an_epoch_is_given_or_left_out():
    assert [len(batch["at"]) for batch in loader_of()] == 10 * [10] + [3]
    assert [len(batch["at"]) for batch in loader_of(drop_last=True)] == 10 * [10]
    assert (len(loader_of()), len(loader_of(drop_last=True)), len(loader_of(epochs=4))) == (11, 10, 44)


def test_shards_are_disjoint_and_complete():
    parts = [places(loader_of(shard=(i, 4), seed=3)) for i in range(4)]
    assert sorted(sum(parts, [])) == list(range(ROWS))
    assert [part[0] for part in parts] == order(ROWS, 3, 0)[:4]


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_for_goes_over_so_many_epochs(epochs):
    loader = loader_of(epochs=epochs)
    assert places(loader) == sum((order(ROWS, 0, epoch) for epoch in range(epochs)), [])
    assert places(loader)[:5] == order(ROWS, 0, epochs)[:5]


def test_without_an_end_it_goes_on():
    loader = loader_of(epochs=None)
    with pytest.raises(TypeError, match="this loader never ends: `batches`"):
        len(loader)
    batches = iter(loader)
    assert places(next(batches) for _ in range(35)) == sum((order(ROWS, 0, epoch) for epoch in range(3)), []) + order(ROWS, 0, 3)[:20]


def test_it_goes_on_after_any_batch_as_if_nothing_had_been():
    whole = places(loader_of(epochs=2))
    for done in range(22):
        first = loader_of(epochs=2)
        before = places(batch for _, batch in zip(range(done), first))
        state = json.loads(json.dumps(first.state_dict()))
        second = loader_of(epochs=2)
        second.load_state_dict(state)
        assert before + places(second) == whole


def test_it_goes_to_an_epoch_and_stays_where_it_is_in_that():
    loader = loader_of()
    loader.set_epoch(5)
    assert next(iter(loader))["at"].tolist() == order(ROWS, 0, 5)[:10]
    assert (loader.epoch, loader.number) == (5, 1)
    loader.set_epoch(5)  # as a training does that was begun anew in the middle of it
    assert next(iter(loader))["at"].tolist() == order(ROWS, 0, 5)[10:20]
    loader.set_epoch(2)
    assert places(loader) == order(ROWS, 0, 2)


def test_a_killed_training_goes_on_with_the_batch_after_its_checkpoint(tmp_path):
    code = """
import json, os, signal, sys
import numpy
from pergpu import share
loader = share.Loader({"at": numpy.arange(103)}, batch_size=10, seed=4, epochs=2, output="numpy")
if os.path.exists("state"):
    with open("state") as file:
        state = json.load(file)
    loader.load_state_dict(state["loader"])
    seen = state["seen"]
else:
    seen = []
for number, batch in enumerate(loader):
    if number == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    seen += batch["at"].tolist()
    with open("new", "w") as file:
        json.dump({"loader": loader.state_dict(), "seen": seen}, file)
    os.replace("new", "state")
print(json.dumps(seen))
"""
    env = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    for kill_at in (3, 0, 9, 1):
        done = subprocess.run([sys.executable, "-c", code, str(kill_at)], cwd=tmp_path, env=env, timeout=60)
        assert done.returncode == -signal.SIGKILL
    last = subprocess.run([sys.executable, "-c", code, "-1"], cwd=tmp_path, env=env, timeout=60, capture_output=True)
    assert json.loads(last.stdout) == order(103, 4, 0) + order(103, 4, 1)


def test_a_state_of_other_batches_is_refused():
    state = loader_of().state_dict()
    for options, words in [
        ({"seed": 1}, "seed 0; this one has 1"),
        ({"batch_size": 11}, "batch_size 10; this one has 11"),
        ({"shard": (1, 2)}, r"shard \[0, 1\]; this one has \[1, 2\]"),
        ({"data": rows(104)}, "rows 103; this one has 104"),
    ]:
        with pytest.raises(ValueError, match=words):
            loader_of(**options).load_state_dict(state)
    with pytest.raises(ValueError, match="version 9"):
        loader_of().load_state_dict({**state, "version": 9})
    with pytest.raises(ValueError, match="number is 11; expected 0 to 10"):
        loader_of().load_state_dict({**state, "number": 11})


def test_batches_that_are_kept_do_not_change():
    loader = loader_of(epochs=20, ahead=2)
    kept = list(loader)
    assert places(kept) == sum((order(ROWS, 0, epoch) for epoch in range(20)), [])
    some = [batch["x"][2:3] for batch in kept]  # a view of a view keeps its slot, too
    before = [one.copy() for one in some]
    del kept
    for _ in loader:
        pass
    assert all((one == there).all() for one, there in zip(some, before))


def test_slots_are_filled_anew_when_the_last_view_is_gone():
    def place(array):
        return array.__array_interface__["data"][0]

    loader = loader_of(epochs=None, ahead=2)
    batches = iter(loader)
    assert len({place(next(batches)["x"]) for _ in range(50)}) <= 3
    kept = next(batches)["x"]
    assert place(kept) not in {place(next(batches)["x"]) for _ in range(50)}


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "uint16", "float16", "int32", "uint32", "float32", "int64", "uint64", "float64", "complex64"]
)
def test_rows_of_each_type_and_shape_stay_what_they_are(dtype):
    shapes = {"flat": (50,), "matrix": (50, 3, 2), "empty": (50, 0)}
    data = {name: (numpy.arange(numpy.prod(shape)) % 100).reshape(shape).astype(dtype) for name, shape in shapes.items()}
    batches = list(share.Loader(data, batch_size=16, shuffle=False, output="numpy"))
    for name, array in data.items():
        joined = numpy.concatenate([batch[name] for batch in batches])
        assert joined.dtype == array.dtype and joined.shape == array.shape and (joined == array).all()


def test_batches_look_like_the_data():
    numbers = numpy.arange(20)
    (batch,) = share.Loader(numbers, batch_size=20, shuffle=False)
    assert isinstance(batch, share.Array) and memoryview(batch).tolist() == list(range(20))
    ((a, b),) = share.Loader((numbers, bytes(20)), batch_size=20, shuffle=False, output="numpy")
    assert a.tolist() == list(range(20)) and b.tobytes() == bytes(20)
    ((a,),) = share.Loader([numbers], batch_size=20, shuffle=False)
    assert a.shape == (20,)


def test_it_reads_a_dataset(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    data = share.dataset(f"rows of {os.getpid()}", rows)
    assert places(loader_of(data)) == order(ROWS, 0, 0)


def test_it_reads_tensors_and_gives_tensors():
    torch = pytest.importorskip("torch")
    data = {
        "at": torch.arange(ROWS),
        "half": torch.arange(ROWS).to(torch.bfloat16),
        "odd": torch.arange(ROWS) % 2 == 1,
    }
    loader = share.Loader(data, batch_size=10, output="torch")
    kept = list(loader)
    assert torch.cat([batch["at"] for batch in kept]).tolist() == order(ROWS, 0, 0)
    for batch in kept:
        assert batch["half"].dtype == torch.bfloat16 and (batch["half"] == batch["at"].to(torch.bfloat16)).all()
        assert batch["odd"].dtype == torch.bool and (batch["odd"] == (batch["at"] % 2 == 1)).all()
    (whole,) = share.Loader(
        {"image": IMAGES},
        batch_size=40,
        shuffle=False,
        transforms={"image": share.Images(dtype="bfloat16", scale=1)},
        output="torch",
    )
    assert (whole["image"].float() == torch.tensor(IMAGES).permute(0, 3, 1, 2).float()).all()


def test_torchs_own_loader_takes_it():
    torch = pytest.importorskip("torch")
    loader = loader_of()
    dataset = loader.torch()
    theirs = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=0)
    assert len(theirs) == 11
    seen = [at for batch in theirs for at in batch["at"].tolist()]
    assert seen == order(ROWS, 0, 0) and isinstance(batch_of(theirs)["x"], torch.Tensor)
    dataset.set_epoch(4)
    other = loader_of().torch()
    other.load_state_dict(dataset.state_dict())
    assert batch_of(other)["at"].tolist() == order(ROWS, 0, 4)[:10]
    with pytest.raises(RuntimeError, match="num_workers=0"):
        batch_of(torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=1))


def batch_of(batches):
    return next(iter(batches))


def test_jax_takes_it():
    pytest.importorskip("jax")
    seen = [batch["x"] for batch in loader_of({"x": numpy.arange(20, dtype="float32")}, output="jax")]
    assert sorted(float(one) for batch in seen for one in batch) == list(range(20))


def test_async_for_lets_others_work_and_loses_nothing_when_it_is_cancelled():
    loader = loader_of(epochs=50)

    async def main():
        turns, seen = 0, []

        async def other():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.ensure_future(other())
        async for batch in loader:
            seen += batch["at"].tolist()
            if len(seen) > 1000:
                break
        for _ in range(20):  # each is taken back at once, mostly while it waits

            async def one():
                async for batch in loader.rest():
                    seen.extend(batch["at"].tolist())
                    return

            task = asyncio.ensure_future(one())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        async for batch in loader.rest():
            seen += batch["at"].tolist()
        beside.cancel()
        return turns, seen

    turns, seen = asyncio.run(main())
    assert turns > 100
    assert seen == sum((order(ROWS, 0, epoch) for epoch in range(50)), [])


def test_its_threads_stay_within_what_the_process_may_use(monkeypatch):
    assert _budget.cores() <= len(os.sched_getaffinity(0))
    for cores, threads in [(1, 1), (2, 1), (4, 3), (9, 8)]:
        monkeypatch.setattr(_loader, "cores", lambda: cores)
        loader = loader_of()
        assert loader.threads == threads and own_threads() == 0, "they begin with the first batch"
        batch_of(loader)
        assert own_threads() == threads
        loader.close()
        assert own_threads() == 0
        assert loader_of(threads=2).threads == min(2, threads)


def test_the_cores_are_those_of_control_groups_and_the_job(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    for name in ("PERGPU_JOB", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    root = str(tmp_path)

    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    assert _budget.cores(root) == 16
    write("proc/self/cgroup", "0::/user/job\n")
    write("sys/fs/cgroup/user/job/cpu.max", "max 100000\n")
    assert _budget.cores(root) == 16
    write("sys/fs/cgroup/user/cpu.max", "650000 100000\n")
    assert _budget.cores(root) == 7
    write("proc/self/cgroup", "3:memory:/j\n2:cpu,cpuacct:/j\n")
    write("sys/fs/cgroup/cpu,cpuacct/j/cpu.cfs_quota_us", "300000\n")
    write("sys/fs/cgroup/cpu,cpuacct/j/cpu.cfs_period_us", "100000\n")
    assert _budget.cores(root) == 3
    write("proc/self/cgroup", "")
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert _budget.cores(root) == 16, "without a job it is no budget"
    monkeypatch.setenv("PERGPU_JOB", "1")
    assert _budget.cores(root) == 5


def test_it_needs_no_interpreter_lock():
    """While one thread holds the lock and never lets it go, batches are made."""
    loader = loader_of({"x": numpy.zeros((1000, 1000))}, batch_size=100, ahead=4, epochs=None)
    batch_of(loader)
    native = loader._native
    held = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        taken = [native.take(0) for _ in range(4)]
        end = time.monotonic() + 30
        while None in taken and time.monotonic() < end:  # without a call that lets the lock go
            taken = [one if one is not None else native.take(0) for one in taken]
    finally:
        sys.setswitchinterval(held)
    assert None not in taken


def test_who_waits_for_a_batch_leaves_the_lock_to_others():
    native = share.Loader(numpy.zeros((1, 100 << 20), dtype="uint8"), batch_size=1)._native
    taken = []
    waiting = threading.Thread(target=lambda: taken.append(native.take(None)))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # nobody is made to let the lock go
    try:
        waiting.start()
        turns = 0
        while not taken:
            turns += 1
            time.sleep(0)
    finally:
        sys.setswitchinterval(interval)
    waiting.join()
    assert turns > 100


def test_ctrl_c_ends_a_wait():
    code = """
import threading, time, os, signal, numpy
from pergpu import share
native = share.Loader(numpy.zeros((8, 8 << 20), "uint8"), batch_size=8, ahead=1)._native
def handler(*_): raise SystemExit(7)
signal.signal(signal.SIGINT, handler)
threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()
while True:
    native.take(None)
"""
    env = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    assert subprocess.run([sys.executable, "-c", code], env=env, timeout=60).returncode == 7


def test_it_is_closed_in_the_middle_of_an_epoch():
    loader = loader_of(threads=1)
    kept = batch_of(loader)
    before = kept["x"].copy()
    assert own_threads() == 1
    with loader:
        assert "at batch 1 of 11 of epoch 0" in repr(loader)
    assert own_threads() == 0 and "closed" in repr(loader)
    assert (kept["x"] == before).all()
    for use in (lambda: batch_of(loader), lambda: loader.set_epoch(3)):
        with pytest.raises(ValueError, match="the loader was closed"):
            use()
    loader.close()
    other = loader_of()
    kept = batch_of(other)
    before = kept["x"].copy()
    del other
    gc.collect()
    assert own_threads() == 0, "the end of the object is one, too"
    assert (kept["x"] == before).all()


def test_a_loader_in_a_cycle_of_garbage_ends_as_well():
    class Data(bytearray):
        pass

    data = Data(1000)
    data.loader = share.Loader(data, batch_size=10)
    batch_of(data.loader)
    assert own_threads() > 0
    gone = weakref.ref(data)
    del data
    gc.collect()
    assert gone() is None and own_threads() == 0


def test_an_error_in_the_loop_leaves_it_as_it_is():
    loader = loader_of()
    with pytest.raises(ZeroDivisionError):
        for batch in loader:
            1 / 0
    assert loader.number == 1
    assert batch["at"].tolist() + places(loader.rest()) == order(ROWS, 0, 0)


def test_a_forked_process_keeps_its_batch_and_goes_on_with_threads_of_its_own():
    loader = loader_of(epochs=3)
    kept = batch_of(loader)
    before = kept["x"].copy()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.read(read, 1)  # the parent has filled its slots anew
            same = bool((kept["x"] == before).all())
            rest = places(loader.rest())
            expected = sum((order(ROWS, 0, epoch) for epoch in range(3)), [])[10:]
            status = 0 if same and rest == expected and own_threads() else 2
            del kept, loader
            gc.collect()
        finally:
            os._exit(status)
    del kept
    rest = places(loader.rest())
    os.write(write, b"x")
    assert os.waitpid(child, 0)[1] == 0
    assert rest == sum((order(ROWS, 0, epoch) for epoch in range(3)), [])[10:]
    os.close(read), os.close(write)


def test_a_process_that_has_one_ends():
    code = """
import numpy
from pergpu import share
loader = share.Loader(numpy.zeros((100000, 100)), epochs=None, ahead=8)
batches = iter(loader)
kept = [next(batches) for _ in range(20)]
"""
    env = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    done = subprocess.run([sys.executable, "-c", code], env=env, timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


X = numpy.zeros((20, 4))


@pytest.mark.parametrize(
    "data, options, error, words",
    [
        ({}, {}, ValueError, "a loader needs at least one array"),
        ({"x": X, "y": X[:19]}, {}, ValueError, "arrays of 20 and of 19 rows"),
        ({"x": X[:0]}, {}, ValueError, "an epoch of 0 rows is smaller than a batch"),
        ({"x": X}, {"drop_last": True, "batch_size": 21}, ValueError, "an epoch of 20 rows is smaller than a batch of 21"),
        ({"x": X[:, :2]}, {}, ValueError, r"'x' are not contiguous: pass .copy\(\)"),
        ({"x": numpy.array([None])}, {}, TypeError, "'x' has dtype object; expected numbers"),
        ({"x": numpy.array(["a"])}, {}, TypeError, "'x' has dtype str32; expected one of"),
        ({"x": numpy.zeros(3, ">f4")}, {}, TypeError, "numbers in this machine's byte order"),
        ({"x": 3}, {}, TypeError, "'x' is int; expected an array"),
        ({"x": numpy.float32(3)}, {}, ValueError, "'x' has no dimensions"),
        ((X, "text"), {}, TypeError, "number 1 is str"),
        (None, {}, TypeError, "the data is NoneType"),
        ({"x": X}, {"batch_size": 0}, ValueError, "batch_size is 0; expected 1 to"),
        ({"x": X}, {"batch_size": 2.0}, TypeError, "batch_size is 2.0; expected an integer"),
        ({"x": X}, {"seed": -1}, ValueError, "seed is -1; expected 0 to"),
        ({"x": X}, {"epochs": 0}, ValueError, "epochs is 0"),
        ({"x": X}, {"shard": (2, 2)}, ValueError, "the shard is 2; expected 0 to 1"),
        ({"x": X}, {"shard": 2}, TypeError, r"shard is 2; expected \(i, n\)"),
        ({"x": X}, {"threads": 0}, ValueError, "threads is 0"),
        ({"x": X}, {"ahead": 0}, ValueError, "ahead is 0"),
        ({"x": X}, {"output": "pandas"}, ValueError, "output is 'pandas'; expected one of 'array', 'numpy', 'torch', 'jax'"),
        ({"x": X}, {"transforms": {"y": share.Images()}}, ValueError, "there is no array 'y'; the arrays are 'x'"),
        ({"x": X}, {"transforms": {"x": len}}, TypeError, "share.Images"),
        ({"x": X}, {"transforms": {"x": share.Images()}}, ValueError, r"'x' is \(20, 4\) of float64; expected uint8 images"),
        ({"x": X}, {"transforms": [share.Images()]}, TypeError, "expected a dict"),
        ({"x": IMAGES}, {"transforms": {"x": share.Images(crop=99)}}, ValueError, "crop of 99 x 99 doesn't fit"),
        ({"x": IMAGES}, {"transforms": {"x": share.Images(mean=[1, 2])}}, ValueError, "3 channels, not 2"),
        ({"x": X}, {"batch_size": 1 << 31, "ahead": 1 << 15}, MemoryError, "are free"),
    ],
)
def test_what_is_wrong_is_said_with_what_was_expected(data, options, error, words):
    with pytest.raises(error, match=words):
        share.Loader(data, **options)


def test_memory_can_only_be_pinned_where_there_is_cuda(monkeypatch):
    monkeypatch.setenv("PERGPU_CUDART", "/nowhere/libcudart.so")
    with pytest.raises(OSError, match="libcudart"):
        loader_of(pinned=True)


def test_pinned_slots_are_given_to_cuda_and_taken_back(monkeypatch, tmp_path):
    fake = pathlib.Path(os.environ.get("PERGPU_BIN", "")).parent / "fake_cudart/libcudart.so.12"
    if not fake.exists():
        pytest.skip("the stand-in for CUDA's library is not built")
    monkeypatch.setenv("PERGPU_CUDART", str(fake))
    pinned = ctypes.CDLL(str(fake)).fake_cudart_pinned
    pinned.restype = ctypes.c_size_t
    loader = loader_of(pinned=True, ahead=2, epochs=2)
    assert pinned() == 3 * 4096, "what is prepared, and one that is held"
    kept = list(loader)
    loader.close()
    assert pinned() == 22 * 4096
    del kept
    assert pinned() == 0
