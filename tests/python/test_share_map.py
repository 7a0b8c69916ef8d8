"""A loader whose batches go through a function in other processes: in order, exactly, whoever is killed."""
import asyncio
import contextlib
import ctypes
import functools
import gc
import os
import select
import signal
import subprocess
import sys
import traceback

import pytest

numpy = pytest.importorskip("numpy")
share = pytest.importorskip("pergpu.share", reason="the compiled part of the package is not built")

from pergpu.share import _loader, _loader_map, _map_worker  # noqa: E402
from processes import Other  # noqa: E402
from shared import descriptors  # noqa: E402

ROWS = 103
KEPT = []


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for name in ("PERGPU_SWEEP", "PERGPU_OUT", "PERGPU_HOME", "PERGPU_JOB"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_loader, "cores", lambda: 8)
    gc.collect()  # loaders that earlier tests left in cycles


def rows(count=ROWS):
    return {"at": numpy.arange(count), "x": numpy.arange(count * 3, dtype="float32").reshape(count, 3)}


def loader_of(map, data=None, **options):
    return share.Loader(rows() if data is None else data, **{"batch_size": 10, "seed": 3, "output": "numpy", "map": map, **options})


def workers_of(process=None):
    """The living children of a process, this one if none is given, that work for a loader."""
    process = process or os.getpid()
    found = []
    for thread in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{thread}/children") as file:
            for pid in file.read().split():
                with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as line:
                    if b"_map_program" in line.read():
                        found.append(int(pid))
    return sorted(found)


def ends(pidfd):
    """Waits until that process has ended."""
    ready, _, _ = select.select([pidfd], [], [], 60)
    os.close(pidfd)
    assert ready, "it goes on"


# What workers do.


def doubled(batch):
    return {"at": batch["at"], "x": 2 * batch["x"], "pid": numpy.array([os.getpid()])}


def even(batch):
    """Of another shape for each batch, and mostly larger than what it is made of."""
    at = batch["at"][batch["at"] % 2 == 0]
    return at, numpy.repeat(at[:, None], 5000 * (1 + int(at[0]) % 7), axis=1)


def changing(batch):
    batch["x"] += 1
    return batch


def keeping(batch):
    KEPT.append(batch["x"])
    return numpy.array([one[0, 0] for one in KEPT])


def seeded(batch, seed):
    return {"at": batch["at"], "noise": numpy.random.RandomState(seed).rand(3), "seed": numpy.array([seed])}


class Picky(Exception):
    """Like many, it cannot be made from what it was called with alone."""

    def __init__(self, words, more):
        super().__init__(words)


def refusing(batch, at=33, error=LookupError):
    if at in batch["at"]:
        raise error("it is here") if error is LookupError else error("it is here", 5)
    return batch["at"]


def killing(batch, flag):
    if 33 in batch["at"] and not os.path.exists(flag):
        open(flag, "x").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return {**batch, "pid": numpy.array([os.getpid()])}


def spinning(batch, folder):
    """In the interpreter's own code, which does not come back and lets nobody else run."""
    open(f"{folder}/{os.getpid()}", "x").close()
    sum(iter(int, 1))


def leaving(batch):
    sys.exit(7)


def summed(batch):
    return batch.sum(axis=1)


def of_two(batch):
    x, y = batch
    return [y, x]


def with_torch(batch):
    import torch

    return {"x": torch.from_numpy(batch["x"]).t(), "is": torch.from_numpy(batch["at"]) % 2 == 0, "one": torch.tensor(1.5)}


def surrounded(batch):
    return numpy.array([os.environ["OMP_NUM_THREADS"] == "1" and signal.getsignal(signal.SIGINT) is signal.SIG_IGN])


def words(batch):
    return {"words": "words"}


def stuck(batch, fifo):
    with open(fifo, "w") as file:  # somebody reads: it is at work
        file.write("here")
    signal.pause()


class Shift:
    def __init__(self, by):
        self.by = by

    def __call__(self, batch):
        return batch["at"] + self.by


def test_results_come_in_the_loaders_order_whatever_the_number_of_workers():
    plain = [batch["at"].tolist() for batch in share.Loader(rows(), batch_size=10, seed=3, output="numpy", epochs=3)]
    for workers in (1, 2, 3):
        loader = loader_of(doubled, workers=workers, epochs=3)
        pids = set()
        came = []
        for batch in loader:
            assert (batch["x"] == 6 * batch["at"][:, None] + 2 * numpy.arange(3)).all()
            pids.update(batch["pid"].tolist())
            came.append(batch["at"].tolist())
        assert came == plain and len(pids) == workers and os.getpid() not in pids
        assert pids == set(workers_of())
        loader.close()


def test_results_may_have_any_shape_and_grow():
    loader = loader_of(even, workers=2)
    for (at, wide), plain in zip(loader, loader_of(None, drop_last=False)):
        assert at.tolist() == [i for i in plain["at"].tolist() if i % 2 == 0]
        assert wide.shape == (len(at), 5000 * (1 + at[0] % 7)) and (wide == at[:, None]).all()


@pytest.mark.parametrize(
    "function, data, result",
    [
        (summed, numpy.arange(12).reshape(4, 3), numpy.array([3, 12, 21, 30])),
        (of_two, (numpy.zeros((4, 2)), numpy.arange(4, dtype="int8")), (numpy.arange(4, dtype="int8"), numpy.zeros((4, 2)))),
        (Shift(5), {"at": numpy.arange(4)}, numpy.arange(5, 9)),
        (functools.partial(refusing, at=99), {"at": numpy.arange(4)}, numpy.arange(4)),
    ],
    ids=["an array", "a tuple", "an object", "a partial"],
)
def test_functions_see_what_the_data_looks_like(function, data, result):
    loader = loader_of(function, data, shuffle=False)
    (batch,) = loader
    assert type(batch) is type(result)
    for came, there in zip(batch, result) if isinstance(result, tuple) else [(batch, result)]:
        assert came.dtype == there.dtype and came.shape == there.shape and (came == there).all()


def test_a_batch_is_the_functions_own_to_change():
    data = rows()
    loader = loader_of(changing, data, workers=2, epochs=2)
    for batch in loader:
        assert (batch["x"][:, 0] == 3 * batch["at"] + 1).all()
    assert (data["x"] == rows()["x"]).all()


def test_what_the_function_keeps_stays_as_it_is_and_stops_nothing():
    came = list(loader_of(keeping, shuffle=False, batch_size=1))
    assert came[-1].tolist() == [3.0 * i for i in range(ROWS)]


def test_results_that_are_kept_do_not_change_and_stop_nothing():
    loader = loader_of(doubled, workers=2, epochs=4)
    kept = list(loader)
    loader.close()
    for batch in kept:
        assert (batch["x"][:, 0] == 6 * batch["at"]).all()
    assert [batch["at"].tolist() for batch in kept] == [b["at"].tolist() for b in loader_of(None, epochs=4)]


def test_torch_gives_and_takes_tensors():
    torch = pytest.importorskip("torch")
    loader = loader_of(with_torch, output="torch")
    for batch, plain in zip(loader, loader_of(None, output="torch")):
        assert batch["x"].shape[0] == 3 and (batch["x"] == plain["x"].t()).all()
        assert batch["is"].dtype == torch.bool and (batch["is"] == (plain["at"] % 2 == 0)).all()
        assert batch["one"].item() == 1.5 and batch["one"].shape == ()
    data = loader_of(doubled, epochs=2).torch()
    assert [batch["at"].tolist() for batch in torch.utils.data.DataLoader(data, batch_size=None)] == [
        batch["at"].tolist() for batch in loader_of(None, epochs=2)
    ]


def test_arrays_of_share_and_event_loops():
    loader = loader_of(doubled, output="array", workers=2)

    async def all_of_it():
        return [batch["at"].numpy().tolist() async for batch in loader]

    assert asyncio.run(all_of_it()) == [batch["at"].tolist() for batch in loader_of(None)]


def test_a_wait_that_is_cancelled_loses_nothing():
    loader = loader_of(doubled)

    async def cancelled():
        batches = loader.__aiter__()
        task = asyncio.ensure_future(batches.__anext__())
        await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert [batch["at"].tolist() for batch in loader] == [batch["at"].tolist() for batch in loader_of(None)]


def test_it_feeds_channels():
    loader = loader_of(doubled, workers=2)
    with pytest.raises(ValueError, match="slot_bytes"):
        loader.channel()
    channel = share.Channel(slot_bytes=4096, slots=20)
    batches = channel.consumer()
    assert loader.feed(channel).batches == 11
    assert [item["at"].numpy().tolist() for item in batches] == [batch["at"].tolist() for batch in loader_of(None)]


def test_a_state_counts_what_was_given_out():
    whole = [(batch["at"].tolist(), batch["noise"].tolist()) for batch in loader_of(seeded, workers=2, epochs=2)]
    for after in (7, 21):
        first, second = loader_of(seeded, workers=2, epochs=2), loader_of(seeded, workers=3, epochs=2)
        batches = iter(first)
        came = [next(batches) for _ in range(after)]
        state = first.state_dict()
        assert (state["epoch"], state["number"]) == divmod(after, 11)
        second.load_state_dict(state)
        came += second
        assert [(batch["at"].tolist(), batch["noise"].tolist()) for batch in came] == whole
        first.close(), second.close()


@pytest.mark.parametrize("slow", [False, True])
def test_going_elsewhere_throws_away_what_is_on_its_way(slow, monkeypatch):
    loader = loader_of(doubled, workers=2, epochs=None)
    if slow:  # there is a batch only for who waits for it
        gathered = loader._gathered
        monkeypatch.setattr(loader, "_gathered", lambda seconds: None if seconds == 0 else gathered(seconds))
    plain = [batch["at"].tolist() for batch in loader_of(None, epochs=6)]
    batches = iter(loader)
    for epoch, number in ((0, 0), (3, 0), (3, 0), (1, 5), (5, 10), (0, 1)):
        loader.load_state_dict({**loader.state_dict(), "epoch": epoch, "number": number})
        assert next(batches)["at"].tolist() == plain[11 * epoch + number]
    loader.set_epoch(2)
    assert [next(batches)["at"].tolist() for _ in range(12)] == plain[22:34]


def test_seeds_are_those_of_seed_epoch_and_number():
    def seeds(**options):
        return [int(batch["seed"][0]) for batch in loader_of(seeded, epochs=2, **options)]

    first = seeds()
    assert first == seeds(workers=3) == seeds(shuffle=False)
    assert len(set(first)) == 22 and all(0 <= seed < 1 << 32 for seed in first)
    assert not set(first) & set(seeds(seed=4))
    assert set(seeds_of_a_partial()) == {5}
    assert first[12] == _loader_map.seed_of(3, 1, 1)


def seeds_of_a_partial():
    return [int(batch["seed"][0]) for batch in loader_of(functools.partial(seeded, seed=5))]


def test_an_exception_comes_with_its_type_its_place_and_the_workers_lines():
    loader = loader_of(refusing, shuffle=False, workers=2, epochs=2)
    batches = iter(loader)
    assert [next(batches).tolist() for _ in range(3)] == [list(range(10 * i, 10 * i + 10)) for i in range(3)]
    for _ in range(2):
        with pytest.raises(LookupError, match="^it is here$") as error:
            next(iter(loader.rest()))
        lines = "".join(traceback.format_exception(error.type, error.value, error.tb))
        assert "at batch 3 of epoch 0, in process" in lines and 'raise error("it is here")' in lines
        assert (loader.epoch, loader.number) == (0, 3)
    loader.load_state_dict({**loader.state_dict(), "number": 4})
    assert next(iter(loader.rest())).tolist() == list(range(40, 50))


def test_an_exception_that_cannot_travel_is_told_in_words():
    with pytest.raises(RuntimeError, match="Picky: it is here"):
        list(loader_of(functools.partial(refusing, error=Picky)))


def test_results_that_are_no_arrays_are_refused():
    with pytest.raises(TypeError, match="'words' of it is str; expected an array"):
        list(loader_of(words))


def test_a_killed_worker_is_told_and_another_one_gets_its_batch(tmp_path):
    loader = loader_of(functools.partial(killing, flag=str(tmp_path / "once")), shuffle=False, workers=2)
    came, dead = [], []
    while len(came) < 11:
        try:
            for batch in loader:
                came.append(batch["at"].tolist())
        except share.PeerDied as died:
            dead.append(died)
            assert died.signal == signal.SIGKILL and (loader.epoch, loader.number) == (0, 3)
            assert f"process {died.pid}, died by SIGKILL at batch 3 of epoch 0" in str(died)
    assert came == [list(range(10 * i, min(10 * i + 10, ROWS))) for i in range(11)]
    assert len(dead) == 1 and dead[0].pid not in workers_of() and len(workers_of()) == 2


def test_workers_that_are_killed_from_outside_cost_nothing_but_the_news():
    loader = loader_of(doubled, workers=2, epochs=40)
    plain = [batch["at"].tolist() for batch in loader_of(None, epochs=40)]
    came = []
    killed = set()
    while len(came) < len(plain):
        try:
            for batch in loader:
                came.append(batch["at"].tolist())
                if len(came) % 50 == 0:
                    victim = workers_of()[len(killed) % 2]
                    killed.add(victim)
                    os.kill(victim, signal.SIGKILL)
        except share.PeerDied as died:
            assert died.pid in killed and died.signal == signal.SIGKILL
    assert came == plain and len(killed) == 8


def test_a_worker_that_leaves_is_told_with_its_status():
    with pytest.raises(share.PeerDied, match="ended with status 7 at batch 0 of epoch 0") as died:
        list(loader_of(leaving))
    assert died.value.signal is None


def test_workers_have_one_thread_each_and_ignore_ctrl_c():
    assert all(batch.all() for batch in loader_of(surrounded))


def test_workers_and_threads_stay_within_the_cores(monkeypatch):
    for cores, asked, workers, threads in ((8, 2, 2, 5), (8, None, 1, 6), (4, 9, 2, 1), (2, 2, 1, 1), (1, 3, 1, 1)):
        monkeypatch.setattr(_loader, "cores", lambda cores=cores: cores)
        loader = loader_of(doubled, workers=asked)
        assert (loader.workers, loader.threads) == (workers, threads)


@pytest.mark.parametrize("how", ["close", "with", "forget"])
def test_nothing_is_left_of_workers(how):
    before = descriptors()
    with contextlib.ExitStack() as stack:
        loader = loader_of(doubled, workers=3)
        if how == "with":
            stack.enter_context(loader)
        batches = iter(loader)
        batch = next(batches)
        pidfds = [os.pidfd_open(pid) for pid in workers_of()]
        assert len(pidfds) == 3
        if how == "close":
            loader.close()
            with pytest.raises(ValueError, match="closed"):
                next(batches)
        elif how == "forget":
            del loader, batches
            gc.collect()
    assert workers_of() == []
    for pidfd in pidfds:
        ends(pidfd)
    assert (batch["x"][:, 0] == 6 * batch["at"]).all(), "batches stay as they are"
    del batch
    gc.collect()
    assert descriptors() == before
    with open("/proc/self/maps") as file:
        assert "pergpu" not in "".join(line for line in file if "memfd" in line)


def test_a_function_that_does_not_end_does_not_keep_the_loader_from_ending(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    loader = loader_of(functools.partial(stuck, fifo=str(tmp_path / "fifo")))

    async def given_up():
        task = asyncio.ensure_future(loader.__aiter__().__anext__())
        with open(await asyncio.get_running_loop().run_in_executor(None, hold, tmp_path / "fifo")) as file:
            assert file.read() == "here"
        loader.close()
        with pytest.raises(ValueError, match="closed"):
            await task

    asyncio.run(given_up())
    assert workers_of() == []


def hold(fifo):
    return os.open(fifo, os.O_RDONLY)


LOAD = """
    import functools, threading, time
    sys.path.insert(0, sys.argv[1])
    import test_share_map as test
    test._loader.cores = lambda: 8
    def load(function):
        loader = test.loader_of(function, workers=2, epochs=None)
        next(iter(loader))
        return loader
"""
PLAIN = LOAD + """
    loader = load(test.doubled)
    say([test.workers_of(), 0])
    hear()
"""
STUCK = LOAD + """
    threading.Thread(target=load, args=(functools.partial(test.spinning, folder=sys.argv[2]),), daemon=True).start()
    until = time.monotonic() + 60
    while len(os.listdir(sys.argv[2])) < 2 and time.monotonic() < until: time.sleep(0.01)
    child = os.fork() or time.sleep(600)
    say([[int(pid) for pid in os.listdir(sys.argv[2])], child])
    hear()
"""


@pytest.mark.parametrize("code", [PLAIN, STUCK], ids=["between batches", "in the function, and a child lives on"])
def test_workers_end_when_their_loaders_process_is_killed(tmp_path, code):
    (tmp_path / "began").mkdir()
    with Other(code, os.path.dirname(os.path.abspath(__file__)), tmp_path / "began") as other:
        workers, child = other.says()
        pidfds = [os.pidfd_open(pid) for pid in workers]
        try:
            assert len(pidfds) == 2
            other.send(signal.SIGKILL)
            for pidfd in pidfds:
                ends(pidfd)
        finally:
            for pid in filter(None, [*workers, child]):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def test_workers_are_kept_from_ctrl_c_from_their_first_instruction_on(monkeypatch):
    start = _map_worker.Worker._start
    kept = []

    def looked_at(self, *fds):
        start(self, *fds)
        with open(f"/proc/{self.pid}/status") as file:
            masks = dict(line.split(":", 1) for line in file)
        kept.append((int(masks["SigBlk"], 16) | int(masks["SigIgn"], 16)) >> (signal.SIGINT - 1) & 1)

    monkeypatch.setattr(_map_worker.Worker, "_start", looked_at)
    next(iter(loader_of(doubled, workers=2)))
    assert kept == [1, 1] and signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_forked_process_begins_with_workers_of_its_own():
    loader = loader_of(doubled, workers=2)
    batches = iter(loader)
    plain = [batch["at"].tolist() for batch in loader_of(None)]
    assert [next(batches)["at"].tolist() for _ in range(3)] == plain[:3]
    own = workers_of()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            came = list(batches)
            others = {int(batch["pid"][0]) for batch in came}
            if [batch["at"].tolist() for batch in came] == plain[3:] and len(others) == 2 and not others & set(own):
                status = 0
            loader.close()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert workers_of() == own and [batch["at"].tolist() for batch in batches] == plain[3:]


def test_what_cannot_be_is_refused_at_once():
    with pytest.raises(TypeError, match="define it at the top level of a module"):
        loader_of(lambda batch: batch)
    with pytest.raises(TypeError, match="expected a function"):
        loader_of(5)
    with pytest.raises(ValueError, match="there is no map"):
        loader_of(None, workers=2)
    with pytest.raises(ValueError, match="workers"):
        loader_of(doubled, workers=0)
    with pytest.raises(TypeError, match="workers"):
        loader_of(doubled, workers="2")


def test_results_are_pinned_where_that_is_asked_for(monkeypatch):
    fake = os.path.join(os.path.dirname(os.environ.get("PERGPU_BIN", "")), "fake_cudart/libcudart.so.12")
    if not os.path.exists(fake):
        pytest.skip("the fake CUDA runtime is not built")
    monkeypatch.setenv("PERGPU_CUDART", fake)
    pinned = ctypes.CDLL(fake).fake_cudart_pinned
    loader = loader_of(even, workers=2, pinned=True)
    batches = iter(loader)
    held = [next(batches) for _ in range(6)]
    assert pinned() >= held[0][1].nbytes
    loader.close()
    assert pinned() == 0
    monkeypatch.setenv("PERGPU_CUDART", "/nowhere/libcudart.so.12")
    with pytest.raises(OSError, match="pinned"):
        next(iter(loader_of(even, pinned=True)))
    assert workers_of() == []
