"""Channels between processes: who is killed is told, the others go on, and nobody waits for the dead."""
import gc
import os
import pickle
import random
import signal
import threading
import time

import pytest

from processes import Other
from shared import descriptors

from pergpu import share

pytestmark = pytest.mark.usefixtures("own_sweep")


def sleeps(channel, side, place=0):
    """Waits until the one in that place sleeps."""
    deadline = time.monotonic() + 30
    while not channel.describe()[side][place]["sleeping"]:
        assert time.monotonic() < deadline


PRODUCE = """
    out = share.Channel.from_fd(int(sys.argv[1])).producer()
    for i in range(int(sys.argv[2])):
        out.put(i.to_bytes(8, "little"))
    say(out.index)
    hear()
    out.put(b"waiting?")
    say("sent")
    hear()
    out.close()
"""
CONSUME = """
    batches = share.Channel.from_fd(int(sys.argv[1])).consumer()
    held = [batches.get() for _ in range(int(sys.argv[2]))]
    say([int.from_bytes(bytes(item), "little") for item in held])
    hear()
    held.clear()
    say([bytes(item).decode() for item in batches])
"""


def make(**options):
    return share.Channel(**{"slot_bytes": 8, **options})


def test_the_end_of_a_killed_producer_is_told_once_after_its_items():
    channel = make()
    batches = channel.consumer()
    with Other(PRODUCE, channel.fileno(), 3, fds=[channel.fileno()]) as other:
        assert other.says() == 0
        other.send(signal.SIGKILL)
        assert [int.from_bytes(bytes(batches.get()), "little") for _ in range(3)] == [0, 1, 2]
        with pytest.raises(share.PeerDied) as died:
            batches.get()
        assert (died.value.pid, died.value.sequence, died.value.lost) == (other.pid, 3, 0)
        assert died.value.signal == signal.SIGKILL  # nobody has asked for its status
        assert f"process {other.pid}, died by SIGKILL; " in str(died.value) and "number 3" in str(died.value)
        assert not isinstance(died.value, share.PeerLeft)
        assert pickle.loads(pickle.dumps(died.value)).pid == other.pid
        with pytest.raises(TimeoutError):
            batches.get(timeout=0)
    with Other(PRODUCE, channel.fileno(), 1, fds=[channel.fileno()]) as successor:
        assert successor.says() == 0
        assert int.from_bytes(bytes(batches.get()), "little") == 0
        successor.goes_on()
        successor.says(), successor.goes_on()
        assert [bytes(item) for item in batches] == [b"waiting?"]


@pytest.mark.parametrize("how", ["get", "iterate"])
def test_who_waits_is_told_of_a_death(how):
    channel = make()
    batches = channel.consumer()
    with Other(PRODUCE, channel.fileno(), 0, fds=[channel.fileno()]) as other:
        other.says()

        def kill():
            sleeps(channel, "consumers")
            other.send(signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(share.PeerDied) as died:
            batches.get() if how == "get" else next(batches)
        killer.join()
        assert (died.value.pid, died.value.sequence) == (other.pid, None) and "no item of it arrived" in str(died.value)


def test_a_producer_goes_on_after_a_consumer_that_is_killed():
    channel = make(consumers=2)
    out = channel.producer()
    with Other(CONSUME, channel.fileno(), 2, fds=[channel.fileno()]) as other:
        while channel.describe()["consumers"][0]["state"] != "alive":
            pass
        for i in range(3):
            out.put(i.to_bytes(8, "little"))
        assert other.says() == [0, 1]
        other.send(signal.SIGKILL)
        other.ends()
        with pytest.raises(share.PeerDied) as died:
            for _ in range(20):
                out.put(b"x" * 8, timeout=30)
        assert (died.value.pid, died.value.lost, died.value.sequence, died.value.signal) == (other.pid, 2, None, None)
        assert "while it held 2 items" in str(died.value)
    batches = channel.consumer()
    assert int.from_bytes(bytes(batches.get(timeout=10)), "little") == 2
    for _ in range(20):  # all slots are there again
        out.put(b"y" * 8, timeout=10)
        while True:
            try:
                batches.get(timeout=0)
            except TimeoutError:
                break


def test_a_producer_that_waits_is_told_of_the_death_it_waits_for():
    channel = make(slots=2)
    out = channel.producer()
    with Other(CONSUME, channel.fileno(), 2, fds=[channel.fileno()]) as other:
        for _ in range(2):
            out.put(bytes(8))
        other.says()

        def kill():
            sleeps(channel, "producers")
            other.send(signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(share.PeerDied, match="2 items"):
            out.put(b"x" * 8)
        killer.join()
    out.put(b"x" * 8, timeout=0)


def test_deaths_are_skipped_where_that_is_asked_for():
    channel = make()
    batches = channel.consumer(on_death="skip")
    with Other(PRODUCE, channel.fileno(), 2, fds=[channel.fileno()]) as other:
        other.says()
        other.send(signal.SIGKILL)
        other.ends()
    came = [batches.get(timeout=10), batches.get(timeout=10)]
    assert len(came) == 2
    with pytest.raises(TimeoutError):
        batches.get(timeout=0.01)
    with channel.producer(on_death="skip") as out:
        del came
        with Other(CONSUME, channel.fileno(), 0, fds=[channel.fileno()]):
            out.put(b"successr", timeout=10)
        out.put(b"and more", timeout=10)
    assert [bytes(item) for item in batches][-1] == b"and more"


def test_every_process_sees_the_end():
    channel = make(consumers=3)
    others = [Other(CONSUME, channel.fileno(), 0, fds=[channel.fileno()]) for _ in range(3)]
    for other in others:
        other.says()
        other.goes_on()
    with channel.producer() as out:
        for i in range(50):
            out.put(b"%08d" % i, timeout=30)
    came = [other.says() for other in others]
    assert sorted(sum(came, [])) == ["%08d" % i for i in range(50)]
    assert [other.ends() for other in others] == [0, 0, 0]


def test_a_timeout_holds_and_is_no_loss():
    channel = make()
    batches, out = channel.consumer(), channel.producer()
    for seconds in (0.05, 0.3):
        begin = time.monotonic()
        with pytest.raises(TimeoutError):
            batches.get(timeout=seconds)
        assert time.monotonic() - begin >= seconds
    out.put(b"12345678")
    assert bytes(batches.get(timeout=1e12)) == b"12345678"


@pytest.mark.parametrize("wait", ["batches.get()", "next(batches)", "fill()"])
def test_ctrl_c_ends_a_wait(wait):
    code = """
        channel = share.Channel(slot_bytes=8)
        out, batches = channel.producer(), channel.consumer()
        def fill():
            while True: out.put(b"")
        try:
            say()
            %s
        except KeyboardInterrupt:
            say("interrupted")
        try: out.put(b"x", timeout=0)
        except TimeoutError: pass
        say(bytes(batches.get(timeout=0)).decode())
    """ % wait
    with Other(code) as other:
        other.says()
        deadline = time.monotonic() + 30
        while not other.is_asleep() and time.monotonic() < deadline:
            pass
        other.send(signal.SIGINT)
        assert other.says() == "interrupted"
        assert other.says() == ("" if wait == "fill()" else "x")
        assert other.ends() == 0


NAMED = """
    channel = share.Channel(sys.argv[1], slots=3, shape=(2,), dtype="uint8", consumers=2)
    with channel.producer() as out:
        say(channel.name)
        hear()
        out.put(sys.argv[2].encode())
        channel.join(30)
"""


def test_a_name_is_met_by_who_says_it_and_two_names_are_two_channels():
    with Other(NAMED, "one", "ab") as one, Other(NAMED, "two", "cd") as two:
        assert (one.says(), two.says()) == ("one", "two")
        for name, other, word in (("two", two, b"cd"), ("one", one, b"ab")):
            channel = share.Channel(name)
            assert channel.name == name and channel.describe()["consumers"][1]["state"] == "vacant"
            batches = channel.consumer()
            other.goes_on()
            assert [bytes(item) for item in batches] == [word]
            assert other.ends() == 0
    with pytest.raises(OSError, match="closed"):
        channel.producer()  # that one is over, as long as anybody has it
    del channel, batches
    gc.collect()  # what earlier tests left in cycles
    before = descriptors()
    again = share.Channel("one", slot_bytes=1)
    again.close()
    assert descriptors() == before


def test_other_options_than_those_that_are_there_are_told():
    first = share.Channel("name", slots=3, shape=(2, 3), dtype="uint8", consumers=2)
    share.Channel("name", slots=3, shape=[2, 3], dtype="uint8", consumers=2, producers=1).close()
    gc.collect()  # what earlier tests left in cycles
    before = descriptors()
    for wrong, words in (
        ({"slots": 4}, r"slots 4 \(3\)"),
        ({"consumers": 1, "producers": 2}, r"producers 2 \(1\), consumers 1 \(2\)"),
        ({"shape": (3, 2), "dtype": "uint8"}, r"items uint8 of \(3, 2\) \(uint8 of \(2, 3\)\)"),
        ({"slot_bytes": 6}, r"items of up to 6 bytes \(uint8 of"),
        ({"like": {"x": b"ab"}}, r"items dict of x: uint8 of \(2,\) \(uint8"),
    ):
        with pytest.raises(ValueError, match=words):
            share.Channel("name", **wrong)
    assert descriptors() == before
    first.close()
    with pytest.raises(TypeError, match="doesn't exist yet"):
        share.Channel("name")


def test_the_names_of_sweeps_are_their_own(monkeypatch, tmp_path):
    monkeypatch.delenv("PERGPU_SWEEP")
    name = f"of the user, for {tmp_path}"
    mine = share.Channel(name, slot_bytes=1)
    seen = {id(mine): mine.describe()}
    for sweep, out in (("s", f"{tmp_path}/a/s"), ("t", f"{tmp_path}/a/t"), ("s", f"{tmp_path}/b/s")):
        monkeypatch.setenv("PERGPU_SWEEP", sweep)
        monkeypatch.setenv("PERGPU_OUT", out + "/run/step")
        with pytest.raises(TypeError, match="doesn't exist yet"):
            share.Channel(name)
        share.Channel(name, scope="user").close()
        monkeypatch.setenv("PERGPU_OUT", out + "/other/step")
        kept = share.Channel(name, slot_bytes=2)
        monkeypatch.setenv("PERGPU_OUT", out + "/run/step")
        assert share.Channel(name).describe()["slot_bytes"] == kept.describe()["slot_bytes"]
        seen[id(kept)] = kept
    assert len(seen) == 4


def put_all(channel, count):
    with channel.producer() as out:
        for i in range(count):
            out.put(bytes([i]))


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_channel_goes_along_with_multiprocessing(method, monkeypatch):
    multiprocessing = pytest.importorskip("multiprocessing").get_context(method)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.path.dirname(__file__), os.environ["PYTHONPATH"]]))
    channel = make()
    other = multiprocessing.Process(target=put_all, args=(channel, 20))
    other.start()
    assert [bytes(item)[0] for item in channel.consumer()] == list(range(20))
    other.join(30)
    assert other.exitcode == 0


CHECK = """
    batches = share.Channel.from_fd(int(sys.argv[1])).consumer()
    kept = []
    for count, item in enumerate(batches):
        kept = (kept + [item.array])[-2:]
        for array in kept:
            assert len(set(bytes(memoryview(array)))) == 1, bytes(memoryview(array))
        if count == 50: say()
"""


def test_no_item_is_torn_by_who_is_killed():
    channel = make(slot_bytes=None, shape=(3000,), dtype="uint8", slots=3, consumers=3)
    chance = random.Random(1)
    out = channel.producer(on_death="skip")
    fd = channel.fileno()
    others = [Other(CHECK, fd, fds=[fd]) for _ in range(3)]
    for _ in range(20):
        which = chance.randrange(3)
        until = out_of_says(others[which])
        while not until.is_set():
            out.put(bytes([chance.randrange(256)]) * 3000, timeout=60)
        others[which].__exit__()
        others[which] = Other(CHECK, fd, fds=[fd])
    out.close()
    assert [other.ends() for other in others] == [0, 0, 0]
    state = channel.describe()
    assert state["ready"] == 0 and state["producers"][0]["state"] == "closed"


def out_of_says(other):
    """Set when it has said something, or said so before."""
    said = getattr(other, "said", None)
    if said is None:
        said = other.said = threading.Event()
        threading.Thread(target=lambda: (other.says(), said.set())).start()
    return said


MANY = """
    channel = share.Channel.from_fd(int(sys.argv[1]))
    count = int(sys.argv[2])
    with channel.producer() as out:
        for i in range(count):
            out.put(i.to_bytes(8, "little"))
    say(len(os.listdir("/proc/self/fd")))
"""


def test_a_million_items_need_no_descriptors():
    count = 1_000_000
    channel = make(slots=64)
    batches = channel.consumer()
    with Other(MANY, channel.fileno(), count, fds=[channel.fileno()], limit=64) as other:
        expected = 0
        for item in batches:
            assert int.from_bytes(memoryview(item), "little") == expected
            expected += 1
        assert expected == count and other.says() < 16
        assert other.ends() == 0
