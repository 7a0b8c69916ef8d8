"""One loader for several processes: each batch comes once, or to everyone, whoever is killed."""
import contextlib
import json
import os
import signal

import pytest

numpy = pytest.importorskip("numpy")
share = pytest.importorskip("pergpu.share", reason="the compiled part of the package is not built")

from processes import Other  # noqa: E402

ROWS = 103

pytestmark = pytest.mark.usefixtures("own_sweep")


@pytest.fixture
def starts():
    """Starts processes, which are gone at the end of the test."""
    with contextlib.ExitStack() as stack:
        yield lambda *arguments: stack.enter_context(Other(*arguments))


def rows():
    return {"at": numpy.arange(ROWS), "x": numpy.arange(ROWS * 3, dtype="float32").reshape(ROWS, 3)}


def loader_of(data=None, **options):
    return share.Loader(rows() if data is None else data, **{"batch_size": 10, "seed": 3, **options})


def order(**options):
    """The rows of each batch, as a `for` gives them."""
    return [batch["at"].tolist() for batch in loader_of(output="numpy", **options)]


CONSUME = """
    batches = share.Channel(sys.argv[1]).consumer()
    say()
    came = []
    try:
        for batch in batches:
            at, x = memoryview(batch["at"]).tolist(), memoryview(batch["x"]).tolist()
            assert [row[0] for row in x] == [3.0 * i for i in at]
            came.append(at)
    except share.PeerDied as died:
        say(["died", came, died.pid, died.signal, type(died).__name__])
    else:
        say(["ended", came])
    hear()
"""

HOLD = """
    batches = share.Channel(sys.argv[1]).consumer()
    say()
    held = [batches.get() for _ in range(2)]
    say([memoryview(batch["at"]).tolist() for batch in held])
    hear()
"""


def test_each_batch_comes_to_one_consumer(starts):
    loader = loader_of(epochs=3)
    channel = loader.channel("batches", consumers=3)
    others = [starts(CONSUME, "batches") for _ in range(3)]
    for other in others:
        other.says()
    fed = loader.feed(channel)
    came = [other.says() for other in others]
    assert fed == (33, ()) and [how for how, _ in came] == ["ended"] * 3
    assert sorted(sum((batches for _, batches in came), [])) == sorted(order(epochs=3))
    for other in others:
        other.__exit__()
    assert (loader.epoch, loader.number) == (3, 0)


def test_every_batch_comes_to_each_channel_in_order(starts):
    loader = loader_of(epochs=2)
    channels = [loader.channel(name, slots=2) for name in ("a", "b", "c")]
    others = [starts(CONSUME, name) for name in ("a", "b", "c")]
    for other in others:
        other.says()
    assert loader.feed(channels) == (22, ())
    for other in others:
        assert other.says() == ["ended", order(epochs=2)]
        other.__exit__()


@pytest.mark.parametrize(
    "data",
    [numpy.arange(30).reshape(10, 3), (numpy.arange(10, dtype="int16"), numpy.ones((10, 2, 2)))],
    ids=["an array", "a tuple"],
)
def test_items_look_like_the_data(data):
    loader = loader_of(data, batch_size=4, shuffle=False)
    channel = loader.channel(slots=8)
    batches = channel.consumer()
    loader.feed(channel)
    parts = [[], []]
    for item in batches:
        for at, part in enumerate(data if isinstance(data, tuple) else (data,)):
            array = (item[at] if isinstance(data, tuple) else item.array).numpy()
            assert array.dtype == part.dtype
            parts[at].append(array.copy())
    for part, came in zip(data if isinstance(data, tuple) else (data,), parts):
        assert [len(one) for one in came] == [4, 4, 2] and (numpy.concatenate(came) == part).all()


def test_types_that_numpy_lacks_come_whole():
    torch = pytest.importorskip("torch")
    data = {"x": torch.arange(20, dtype=torch.float32).reshape(10, 2).bfloat16(), "is": torch.arange(10) % 3 == 0}
    loader = loader_of(data, batch_size=10, shuffle=False)
    channel = loader.channel()
    batches = channel.consumer()
    loader.feed(channel)
    item = batches.get(timeout=0)
    assert (item["x"].torch() == data["x"]).all() and item["x"].dtype == "bfloat16"
    assert bytes(memoryview(item["is"])) == bytes(data["is"].numpy())


def test_a_killed_consumer_of_several_loses_what_it_held_and_no_more():
    loader = loader_of(epochs=4)
    channel = loader.channel("batches", consumers=2)
    with Other(HOLD, "batches") as victim, Other(CONSUME, "batches") as survivor:
        victim.says(), survivor.says()
        held = []

        def kill():
            if loader.number == 8 and not held:
                held.extend(victim.says())
                victim.send(signal.SIGKILL)
                victim.ends()

        fed = loader.feed(channel, on_death="skip", after=kill)
        how, came = survivor.says()
        assert how == "ended" and len(held) == 2
        assert sorted(came + held) == sorted(order(epochs=4))
        assert fed.batches == 44
        assert [(died.pid, died.lost) for died in fed.deaths] == [(victim.pid, 2)]


def test_the_others_go_on_when_one_of_those_that_get_everything_is_killed():
    loader = loader_of(epochs=4)
    channels = [loader.channel(name) for name in ("victim", "survivor")]
    with Other(HOLD, "victim") as victim, Other(CONSUME, "survivor") as survivor:
        victim.says(), survivor.says()

        def kill():
            if loader.number == 2 and loader.epoch == 0:
                victim.says()
                victim.send(signal.SIGKILL)

        fed = loader.feed(channels, on_death="skip", after=kill)
        assert survivor.says() == ["ended", order(epochs=4)]
        assert [died.pid for died in fed.deaths] == [victim.pid] and fed.batches == 44


@pytest.mark.parametrize("on_death", ["skip", "raise"])
def test_a_consumer_that_dies_when_all_was_sent_is_told_of(on_death):
    loader = loader_of(batch_size=ROWS // 3, drop_last=True)
    channel = loader.channel("batches")
    with Other(HOLD, "batches") as victim:
        victim.says()

        def kill():
            if loader.number == 0:  # it has two of three, and nobody will take the third
                victim.says()
                victim.send(signal.SIGKILL)
                victim.ends()

        if on_death == "raise":
            with pytest.raises(share.PeerDied) as told:
                loader.feed(channel, after=kill)
            deaths = [told.value]
        else:
            deaths = loader.feed(channel, on_death="skip", after=kill).deaths
        assert [(died.pid, died.lost) for died in deaths] == [(victim.pid, 2)]


def test_a_death_is_raised_and_feeding_again_goes_on_with_the_same_batch():
    loader = loader_of()
    channels = [loader.channel(name) for name in ("victim", "survivor")]
    with Other(HOLD, "victim") as victim, Other(CONSUME, "survivor") as survivor:
        victim.says(), survivor.says()

        def kill():
            if loader.number == 3:
                victim.says()
                victim.send(signal.SIGKILL)
                victim.ends()

        with pytest.raises(share.PeerDied) as died:
            loader.feed(channels, after=kill)
        assert died.value.pid == victim.pid and died.value.lost == 2
        how, came, pid, killer, kind = survivor.says()
        assert (how, pid, killer, kind) == ("died", os.getpid(), None, "PeerLeft")
        assert came == order()[: loader.number], "what was sent to one was sent to both"
    after = loader.channel("new")
    with Other(CONSUME, "new") as other:
        other.says()
        loader.feed(after)
        assert other.says() == ["ended", order()[len(came) :]]


def test_when_nobody_is_left_that_is_told():
    loader = loader_of(epochs=None)
    channel = loader.channel("victim")
    with Other(HOLD, "victim") as victim:
        victim.says()

        def kill():
            if loader.number == 2 and loader.epoch == 0:
                victim.says()
                victim.send(signal.SIGKILL)

        with pytest.raises(share.PeerDied, match="no consumers are left to feed") as died:
            loader.feed(channel, on_death="skip", after=kill)
        assert died.value.pid == victim.pid
    closed = loader.channel(slots=2)
    closed.consumer().close()
    with pytest.raises(BrokenPipeError, match="no consumers are left to feed: all have closed"):
        loader.feed(closed)


def test_a_timeout_sends_the_batch_to_nobody_and_it_comes_next():
    loader = loader_of()
    slow, quick = loader.channel(slots=2), loader.channel(slots=8)
    batches = quick.consumer()
    with pytest.raises(TimeoutError):
        loader.feed([quick, slow], timeout=0.01)
    came = []
    with pytest.raises(share.PeerLeft):
        for item in batches:
            came.append(item["at"].numpy().tolist())
    assert came == order()[:2] and loader.state_dict()["number"] == 2
    assert [batch["at"].numpy().tolist() for batch in loader] == order()[2:]


FEED = """
    import numpy
    rows = {"at": numpy.arange(103), "x": numpy.arange(309, dtype="float32").reshape(103, 3)}
    loader = share.Loader(rows, batch_size=10, seed=3, epochs=5)
    if sys.argv[2] != "null": loader.load_state_dict(json.loads(sys.argv[2]))
    def after():
        if sys.argv[2] == "null":
            say(loader.state_dict())
            hear()
    say(loader.feed(loader.channel(sys.argv[1]), after=after).batches)
    hear()
"""


def test_a_killed_feeder_is_told_and_the_next_one_goes_on_from_its_state():
    channel = loader_of().channel("batches")
    batches = channel.consumer()
    came = []
    with Other(FEED, "batches", "null") as feeder:
        for _ in range(7):
            state = feeder.says()
            came.append(batches.get()["at"].numpy().tolist())
            if len(came) < 7:
                feeder.goes_on()
        feeder.send(signal.SIGKILL)
        with pytest.raises(share.PeerDied) as died:
            batches.get()
        assert (died.value.pid, died.value.signal, died.value.sequence) == (feeder.pid, signal.SIGKILL, 7)
    with Other(FEED, "batches", json.dumps(state)) as successor:
        came += [item["at"].numpy().tolist() for item in batches]
        assert successor.says() == 55 - 7
    assert came == order(epochs=5)


def test_what_cannot_be_fed_is_refused():
    loader = loader_of()
    with pytest.raises(TypeError, match="expected share.Channel"):
        loader.feed(["name"])
    with pytest.raises(ValueError, match="channels is empty"):
        loader.feed([])
    with pytest.raises(ValueError, match="on_death"):
        loader.feed(loader.channel(), on_death="ignore")
    with pytest.raises(TypeError, match="a channel needs strings"):
        loader_of({5: numpy.arange(3)}).channel()
    small = share.Channel(slot_bytes=8)
    with pytest.raises(ValueError):
        loader_of(batch_size=ROWS).feed(small, timeout=30)
