"""Channels over pipes: what goes in comes out, event loops wait for it, and the end of the others is told."""
import asyncio
import os
import pickle
import signal

import pytest

from processes import Other
from shared import descriptors

from pergpu import share


def both(**options):
    channel = share.PipeChannel(**{"slot_bytes": 100, **options})
    return channel, share.PipeChannel.from_fds([os.dup(fd) for fd in channel.fds()])


def pair(**options):
    one, other = both(**options)
    return one.producer(), other.consumer()


def test_what_goes_in_comes_out_and_then_the_end():
    before = descriptors()
    out, batches = pair(slots=2)
    for i in range(20):
        out.put({"x": bytes([i])}, timeout=0)
        item = batches.get(timeout=0)
        assert bytes(item["x"]) == bytes([i]) and item.sequence == i + 1
    with pytest.raises(TimeoutError):
        batches.get(timeout=0.05)
    out.close()
    assert list(batches) == []
    with pytest.raises(EOFError):
        batches.get()
    assert (out.index, batches.index, out.closed) == (None, None, True)
    assert bytes(item["x"]) == b"\x13"
    batches.close()
    del out, batches, item
    assert descriptors() == before


def test_items_are_what_was_said():
    channel = share.PipeChannel(shape=(2,), dtype="uint8")
    out = share.PipeChannel.from_fds([os.dup(fd) for fd in channel.fds()], like=b"ab").producer()
    with pytest.raises(ValueError, match=r"expected uint8 of \(2,\)"):
        out.put(b"abc")
    with out.slot() as slot:
        memoryview(slot)[:] = b"xy"
    assert bytes(channel.consumer().get()) == b"xy"
    for wrong, error in (({}, TypeError), ({"slot_bytes": 1, "slots": 1}, ValueError), ({"slot_bytes": 1, "slots": 5000}, ValueError)):
        with pytest.raises(error):
            share.PipeChannel(**wrong)


def test_an_end_takes_the_descriptors():
    channel = share.PipeChannel(slot_bytes=1)
    channel.producer()
    for use in (channel.consumer, channel.fds, channel.producer):
        with pytest.raises(ValueError, match="has given"):
            use()
    with pytest.raises(TypeError, match="multiprocessing"):
        pickle.dumps(share.PipeChannel(slot_bytes=1))
    with pytest.raises(OSError):
        share.PipeChannel.from_fds([10**6] * 5)
    with pytest.raises(ValueError, match="PipeChannel"):
        share.Channel(slot_bytes=1).producer().fileno()


def test_views_outlive_the_consumer():
    out, batches = pair(slots=2)
    out.put(b"aaaa")
    view = memoryview(batches.get())
    batches.close()
    assert bytes(view) == b"aaaa"
    with pytest.raises(share.PeerDied, match="died|no consumer"):
        for _ in range(3):
            out.put(b"bbbb")
    with pytest.raises(BrokenPipeError):
        out.put(b"bbbb")
    assert bytes(view) == b"aaaa"


PRODUCE = """
    out = share.PipeChannel.from_fds([int(fd) for fd in sys.argv[1:6]]).producer()
    out.put(b"one")
    say()
    hear()
    out.detach() if sys.argv[6] == "detach" else out.close()
"""


@pytest.mark.parametrize("how", ["kill", "detach", "close"])
def test_the_end_of_the_other_process_is_told(how):
    channel = share.PipeChannel(slot_bytes=100)
    with Other(PRODUCE, *channel.fds(), how, fds=channel.fds()) as other:
        batches = channel.consumer()
        other.says()
        assert bytes(batches.get()) == b"one"
        if how == "kill":
            other.send(signal.SIGKILL)
        else:
            other.goes_on()
        if how == "close":
            assert list(batches) == []
        else:
            with pytest.raises(share.PeerDied) as died:
                batches.get()
            assert type(died.value) is (share.PeerDied if how == "kill" else share.PeerLeft)
            assert (died.value.pid, died.value.sequence) == (other.pid, 1)
            assert list(batches) == []


def put_all(channel, count):
    with channel.producer() as out:
        for i in range(count):
            out.put(bytes([i]))


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_it_goes_along_with_multiprocessing(method, monkeypatch):
    multiprocessing = pytest.importorskip("multiprocessing").get_context(method)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.path.dirname(__file__), os.environ["PYTHONPATH"]]))
    channel = share.PipeChannel(shape=(1,), dtype="uint8")
    other = multiprocessing.Process(target=put_all, args=(channel, 20))
    other.start()

    async def main():
        async with channel.async_consumer() as batches:
            return [bytes(batch)[0] async for batch in batches]

    assert asyncio.run(main()) == list(range(20))
    other.join(30)
    assert other.exitcode == 0


def test_an_event_loop_goes_on_while_tasks_wait():
    one, other = both(slots=2)
    turns = []

    async def produce(out, count):
        for i in range(count):
            await out.put(bytes([i]))
            turns.append("put")

    async def main():
        async with other.async_consumer() as batches:
            async with one.async_producer() as out:
                producers = [asyncio.create_task(produce(out, 30)) for _ in range(3)]
                consumers = [asyncio.create_task(collect(batches)) for _ in range(2)]
                await asyncio.gather(*producers)
            return sum(await asyncio.gather(*consumers), [])

    async def collect(batches):
        came = []
        async for batch in batches:
            came.append(bytes(batch)[0])
            turns.append("got")
            del batch
        return came

    assert sorted(asyncio.run(main())) == sorted(3 * list(range(30)))
    assert "got" in turns[: turns.index("put") + 20]


def test_a_wait_of_a_task_is_taken_back():
    one, other = both(slots=2)

    async def main():
        batches, out = other.async_consumer(), one.async_producer()
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(batches.get(), 0.01)
        await out.put(b"x")
        item = await asyncio.wait_for(batches.get(), 10)
        await out.put(b"y")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(out.put(b"z"), 0.01)
        item.release()
        await asyncio.wait_for(out.put(b"z"), 10)
        with pytest.raises(KeyError):
            async with out:
                raise KeyError
        came = [bytes(await batches.get()), bytes(await batches.get())]
        with pytest.raises(share.PeerLeft):
            await batches.get()
        return came

    assert asyncio.run(main()) == [b"y", b"z"]
