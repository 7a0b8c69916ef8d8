"""Channels within one process: what goes in comes out, and what is wrong is told."""
import array
import gc
import os
import pickle
import threading

import pytest

from shared import descriptors, native

from pergpu import share


def pair(**options):
    channel = share.Channel(**{"slots": 2, "slot_bytes": 1000, **options})
    return channel, channel.producer(), channel.consumer()


def numbers(*values, kind="f"):
    return memoryview(array.array(kind, values))


def test_an_array_comes_out_as_it_went_in():
    channel, out, batches = pair(slot_bytes=None, shape=(2, 3), dtype="float32")
    given = numbers(1, 2, 3, 4, 5, 6).cast("B").cast("f", (2, 3))
    for i in range(20):
        given[1, 2] = i
        out.put(given)
        item = batches.get(timeout=0)
        assert (item.array.shape, item.array.dtype, item.nbytes, len(item)) == ((2, 3), "float32", 24, 2)
        assert memoryview(item) == memoryview(item.array) == given
        assert (item.sequence, item.producer) == (i + 1, 0)
    assert (out.index, batches.index, out.closed, batches.closed) == (0, 0, False, False)
    assert channel.describe()["producers"][0]["pid"] == os.getpid()


@pytest.mark.parametrize("kind, dtype", [("b", "int8"), ("H", "uint16"), ("i", "int32"), ("q", "int64"), ("L", "uint64"), ("d", "float64")])
def test_items_of_any_form_tell_what_they_are(kind, dtype):
    _, out, batches = pair(slots=4)
    given = numbers(*range(10), kind=kind)
    out.put({"x": given, "ünï": b"bytes", "": given[3:4]})
    item = batches.get()
    assert item.keys() == ("x", "ünï", "") and list(item) == ["x", "ünï", ""] and len(item) == 3
    assert (item["x"].dtype, item["ünï"].dtype, item.nbytes) == (dtype, "uint8", 11 * given.itemsize + 5)
    assert {name: memoryview(one).tolist() for name, one in dict(item).items()} == {"x": list(range(10)), "ünï": list(b"bytes"), "": [3]}
    assert list(item.value) == ["x", "ünï", ""]
    out.put((given, bytearray(b"12"), given[:0]))
    first, second, third = batches.get()
    assert memoryview(first) == given and bytes(second) == b"12" and third.shape == (0,)
    out.put([])
    assert batches.get().value == ()
    for wrong, error in (("y", KeyError), (1, KeyError)):
        with pytest.raises(error):
            item[wrong]
    for several in (lambda: item.array, lambda: memoryview(item), lambda: item.__dlpack__()):
        with pytest.raises((TypeError, BufferError), match="dict|several"):
            several()


def test_rows_that_lie_apart_are_put_together():
    _, out, batches = pair()
    given = numbers(*range(24), kind="i")
    out.put(given[::3])
    assert memoryview(batches.get()).tolist() == list(range(0, 24, 3))
    out.put(given[::-1])
    assert memoryview(batches.get()).tolist() == list(range(23, -1, -1))


def test_a_slot_is_filled_where_it_lies():
    numpy = pytest.importorskip("numpy")
    _, out, batches = pair(slot_bytes=None, like={"x": numpy.empty((3, 2)), "y": numpy.empty(3, "int64")})
    with out.slot() as slot:
        slot["x"].numpy()[:] = 7
        slot["y"] = [1, 2, 3]
        assert slot.keys() == ("x", "y")
    item = batches.get()
    assert item["x"].numpy().tolist() == [[7, 7]] * 3 and item["y"].numpy().tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="sent or released"):
        slot["x"]
    _, out, batches = pair(slot_bytes=None, shape=(3,), dtype="uint8")
    with out.slot() as slot:
        slot.array[...] = 5
        slot[1] = 6
    assert memoryview(batches.get()).tolist() == [5, 6, 5]
    _, out, batches = pair()
    with out.slot(like=numpy.empty((2, 2), "float16")) as slot:
        slot[:] = [[1, 2], [3, 4]]
    assert batches.get().numpy().tolist() == [[1, 2], [3, 4]]
    with pytest.raises(TypeError, match="like"):
        out.slot()


def test_a_slot_is_not_sent_after_an_exception_nor_when_nobody_has_it():
    channel, out, batches = pair(slot_bytes=None, shape=(1,), dtype="uint8")
    for _ in range(10):
        with pytest.raises(KeyError):
            with out.slot(timeout=0):
                raise KeyError
        out.slot(timeout=0)
    held = [out.slot(timeout=0), out.slot(timeout=0)]
    with pytest.raises(TimeoutError, match="slots"):
        out.slot(timeout=0)
    held[0].abandon()
    held[1].publish()
    with pytest.raises(ValueError, match="already"):
        held[1].publish()
    assert batches.get(timeout=0).sequence == 1
    with pytest.raises(TimeoutError):
        batches.get(timeout=0)


def test_the_slot_stays_taken_until_nothing_of_it_is_left():
    _, out, batches = pair(slot_bytes=None, shape=(4,), dtype="uint8")
    out.put(b"aaaa")
    out.put(b"bbbb")
    first, second = batches.get(), batches.get()
    view = memoryview(first)[1:]
    first.release()
    with pytest.raises(ValueError, match="sent or released"):
        first.array
    with pytest.raises(TimeoutError):
        out.put(b"cccc", timeout=0.01)
    assert bytes(view) == b"aaa"
    with second:
        kept = second.array
    del second
    view.release()
    out.put(b"cccc", timeout=0)
    with pytest.raises(TimeoutError):
        out.put(b"dddd", timeout=0)
    assert bytes(kept) == b"bbbb" and bytes(batches.get()) == b"cccc"
    del kept
    for byte in (b"e", b"f"):
        out.put(4 * byte, timeout=0)


def test_views_outlive_the_consumer_and_see_what_they_saw():
    channel, out, batches = pair(slots=3, slot_bytes=None, shape=(4,), dtype="uint8")
    for word in (b"aaaa", b"bbbb", b"cccc"):
        out.put(word)
    item, view, dropped = batches.get(), memoryview(batches.get()), batches.get()
    del dropped
    batches.close()
    batches.close()
    with pytest.raises(ValueError, match="closed"):
        batches.get()
    other = channel.consumer()
    for i in range(20):
        out.put(bytes([i] * 4), timeout=1)
        other.get(timeout=1)
    assert bytes(item) == b"aaaa" and bytes(view) == b"bbbb"
    item.release()
    view.release()


def test_what_is_written_into_an_item_is_seen_by_nobody_else():
    _, out, batches = pair(slot_bytes=None, shape=(4,), dtype="uint8")
    out.put(b"aaaa")
    out.put(b"bbbb")
    item = batches.get()
    memoryview(item)[:] = b"mine"
    assert bytes(batches.get()) == b"bbbb" and bytes(item) == b"mine"


def test_the_end_comes_after_the_last_item_and_to_every_consumer():
    channel = share.Channel(slot_bytes=10, producers=2, consumers=2)
    first, second = channel.producer(), channel.producer()
    consumers = [channel.consumer(), channel.consumer()]
    for i in range(4):
        first.put(bytes([i]))
    first.close()
    second.put(b"\x07")
    second.close()
    assert sorted(bytes(item)[0] for one in consumers for item in one) == [0, 1, 2, 3, 7]
    for one in consumers:
        assert list(one) == []
        with pytest.raises(EOFError):
            one.get()
    with pytest.raises(ValueError, match="closed"):
        first.put(b"")
    assert first.closed


def test_a_producer_that_an_exception_ends_has_not_closed():
    channel, out, batches = pair()
    with pytest.raises(KeyError):
        with out:
            out.put(b"x")
            raise KeyError
    assert bytes(batches.get()) == b"x"
    with pytest.raises(share.PeerLeft) as left:
        batches.get()
    assert (left.value.pid, left.value.signal, left.value.sequence) == (os.getpid(), None, 1)
    assert "without close()" in str(left.value) and isinstance(left.value, share.PeerDied)
    again = pickle.loads(pickle.dumps(left.value))
    assert (type(again), str(again), again.sequence) == (share.PeerLeft, str(left.value), 1)
    with channel.producer() as successor:
        successor.put(b"y")
    assert [bytes(item) for item in batches] == [b"y"]


def test_a_block_that_is_left_by_hand_has_not_failed():
    _, out, batches = pair(slot_bytes=None, shape=(1,), dtype="uint8")
    out.slot().__exit__()
    out.__exit__()
    assert [bytes(item) for item in batches] == [b"\0"] and out.closed


def test_who_never_comes_is_not_waited_for_once_it_is_complete():
    channel = share.Channel(slot_bytes=10, producers=3)
    batches = channel.consumer()
    with channel.producer() as out:
        out.put(b"x")
    assert bytes(batches.get()) == b"x"
    with pytest.raises(TimeoutError):
        batches.get(timeout=0)
    channel.complete()
    with pytest.raises(EOFError):
        batches.get(timeout=10)
    with pytest.raises(ValueError, match="complete"):
        channel.producer()


def test_what_does_not_fit_is_told_with_what_was_expected():
    _, out, batches = pair(slot_bytes=100)
    with pytest.raises(ValueError, match="item has 5064 bytes .* slot has 1124"):
        out.put(bytes(5000))
    with pytest.raises(TypeError, match="'x' is .*int.*expected an array"):
        out.put({"x": 3})
    with pytest.raises(TypeError, match="name in the dict is 3"):
        out.put({3: b""})
    with pytest.raises(ValueError, match="name of an array"):
        out.put({"x" * 300: b""})
    with pytest.raises(ValueError, match="1001 arrays"):
        out.put([b""] * 1001)
    _, out, batches = pair(slot_bytes=None, like={"x": numbers(1), "y": b"ab"})
    for wrong, words in (
        (b"ab", '"dict", not "array"'),
        ((b"ab", b"ab"), '"dict", not "tuple"'),
        ({"x": numbers(1)}, "1 arrays: .* 2"),
        ({"x": numbers(1), "z": b"ab"}, "'y' is missing"),
        ({"x": numbers(1), "y": b"abc"}, r"'y' is uint8 of \(3,\); expected uint8 of \(2,\)"),
        ({"x": numbers(1, kind="d"), "y": b"ab"}, "'x' is float64 of .*float32"),
    ):
        with pytest.raises(ValueError, match=words):
            out.put(wrong)
    out.put({"y": b"cd", "x": numbers(2)})
    assert list(batches.get()) == ["x", "y"]
    for timeout, error in ((-1, ValueError), (float("nan"), ValueError), ("1", TypeError)):
        with pytest.raises(error):
            out.put({"x": numbers(1), "y": b"ab"}, timeout=timeout)
        with pytest.raises(error):
            batches.get(timeout=timeout)


def test_options_that_cannot_be_are_told():
    for wrong, error, words in (
        ({}, TypeError, "shape and dtype, by like, or by slot_bytes"),
        ({"shape": (1,)}, TypeError, "belong together"),
        ({"dtype": "int8"}, TypeError, "belong together"),
        ({"shape": (1,), "dtype": "int8", "slot_bytes": 1}, TypeError, "one of them"),
        ({"like": b"", "slot_bytes": 1}, TypeError, "one of them"),
        ({"shape": (1,), "dtype": "float"}, ValueError, "float32"),
        ({"shape": (-1,), "dtype": "int8"}, ValueError, "dimension is -1"),
        ({"shape": (2**40, 2**40), "dtype": "int8"}, ValueError, "no machine"),
        ({"like": 3}, TypeError, "expected an array"),
        ({"slot_bytes": 0}, ValueError, "slot_bytes is 0"),
        ({"slot_bytes": 1, "slots": 1}, ValueError, "slots is 1; expected an integer of at least 2"),
        ({"slot_bytes": 1, "producers": 0}, ValueError, "producers is 0"),
        ({"slot_bytes": 1, "consumers": 1000}, ValueError, "1000 consumers"),
        ({"slot_bytes": 1, "consumers": 2.5}, ValueError, "consumers is 2.5"),
        ({"slot_bytes": 2**50}, ValueError, "more than a machine's memory|1 to"),
    ):
        with pytest.raises(error, match=words):
            share.Channel(**wrong)
    channel = share.Channel(slot_bytes=1)
    for wrong in (lambda: channel.producer(on_death="no"), lambda: channel.consumer(on_death=None)):
        with pytest.raises(ValueError, match='"raise" or "skip"'):
            wrong()
    with pytest.raises(ValueError, match="scope"):
        share.Channel("name", slot_bytes=1, scope="machine")
    channel.producer()
    for kind in (share.Producer, share.Consumer, share.Item, share.Slot, native.Channel, native.Pipes):
        with pytest.raises(TypeError, match="^use "):
            kind()


def test_there_is_a_place_for_each_and_no_more():
    channel = share.Channel(slot_bytes=1)
    out = channel.producer()
    with pytest.raises(OSError, match="all places for producers"):
        channel.producer()
    out.detach()
    channel.producer()
    assert channel.describe()["consumers"][0]["state"] == "vacant"


def test_a_channel_goes_by_its_descriptor():
    channel, out, batches = pair(slot_bytes=None, shape=(2,), dtype="uint8")
    fd = os.dup(channel.fileno())
    again = share.Channel.from_fd(fd)
    with pytest.raises(OSError):
        os.fstat(fd)
    channel.close()
    with pytest.raises(ValueError, match="closed"):
        channel.producer()
    out.detach()
    with again, again.producer() as other:
        with pytest.raises(ValueError, match="uint8 of"):
            other.put(b"x")
        other.put(b"xy")
    assert bytes(batches.get()) == b"xy"
    for wrong in (native.Memory.create("test", 4096), native.Channel.create("test", 2, 10, 1, 1)):
        with pytest.raises(ValueError, match="isn't a channel|not made by"):
            share.Channel.from_fd(wrong.fileno())
        os.fstat(wrong.fileno())
    with pytest.raises(OSError):
        share.Channel.from_fd(10**6)
    with pytest.raises(OverflowError):
        native.Channel.adopt(1 << 32)
    with pytest.raises(TypeError, match="multiprocessing"):
        pickle.dumps(share.Channel(slot_bytes=1))
    with pytest.raises(TypeError):
        pickle.dumps(out)


def test_join_waits_for_what_was_put():
    channel, out, batches = pair()
    out.put(b"x")
    with pytest.raises(TimeoutError, match="1 items"):
        channel.join(timeout=0)
    item = batches.get()
    channel.join(timeout=0)
    assert bytes(item) == b"x"


def test_one_thread_waits_and_others_let_go():
    channel, out, batches = pair(slot_bytes=None, shape=(1,), dtype="uint8")
    held = []
    for _ in range(2):
        out.put(b"x")
        held.append(batches.get())
    waits = threading.Thread(target=lambda: held.append(batches.get()))
    waits.start()
    while not channel.describe()["consumers"][0]["sleeping"]:
        pass
    with pytest.raises(RuntimeError, match="another thread"):
        batches.get(timeout=0)
    with pytest.raises(RuntimeError, match="another thread"):
        batches.close()
    held.clear()  # the thread sleeps, and this gives its slots back
    out.put(b"y", timeout=10)
    waits.join(30)
    assert bytes(held.pop()) == b"y"


def test_nobody_takes_the_slot_away_that_a_thread_fills():
    item = bytes(32 << 20)
    channel, out, batches = pair(slot_bytes=len(item) + 1024)
    ends = []

    def put():
        try:
            out.put(item)
            ends.append("sent")
        except ValueError:  # not even begun
            ends.append("closed")
        except BaseException as error:
            ends.append(error)

    fills = threading.Thread(target=put)
    fills.start()
    while not out.closed:
        try:
            out.detach()
        except RuntimeError as error:
            assert "another thread" in str(error)
    fills.join()
    assert ends in (["sent"], ["closed"])
    assert ends == ["closed"] or batches.get(timeout=0).nbytes == len(item)


def test_a_forked_process_is_told_and_hurts_nobody():
    channel, out, batches = pair(slot_bytes=None, shape=(4,), dtype="uint8")
    out.put(b"aaaa")
    out.put(b"bbbb")
    item = batches.get()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for use in (lambda: out.put(b"cccc"), lambda: batches.get()):
                with pytest.raises(RuntimeError, match="fork"):
                    use()
            del item
            gc.collect()
            out.close()
            batches.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    with pytest.raises(TimeoutError):
        out.put(b"cccc", timeout=0)
    assert bytes(item) == b"aaaa" and bytes(batches.get()) == b"bbbb"
    del item
    out.put(b"dddd", timeout=0)


def test_garbage_in_a_slot_is_told_and_read_nowhere():
    channel = native.Channel.create("test", 2, 300, 1, 1)
    fd = os.dup(channel.fileno())
    out, batches = channel.producer(), channel.consumer()
    out.put({"x": numbers(1, 2, 3), "y": b"abc"})
    content = os.pread(fd, 1 << 20, 0)
    at = content.index(b"PITM")
    batches.get()
    seen = set()
    for i in range(120):
        for value in (0, 0x7F, 0xFF):
            slot = out.slot(like={"x": numbers(1, 2, 3), "y": b"abc"})
            slot.publish()
            begin = os.pread(fd, len(content), 0)
            for found in (at, at + 320):
                if begin[found : found + 4] == b"PITM":
                    os.pwrite(fd, bytes([value]), found + i)
            try:
                item = batches.get()
                parts = item.value
                for one in parts.values() if isinstance(parts, dict) else parts if isinstance(parts, tuple) else [parts]:
                    memoryview(one).tobytes()
                seen.add("item")
            except OSError as error:
                assert "is damaged" in str(error)
                seen.add("error")
            item = None
    assert seen == {"item", "error"}


def test_nothing_is_left_behind():
    def everything():
        channel, out, batches = pair(slots=3)
        out.put({"x": numbers(1), "y": b"12"})
        out.put([b"x", numbers(5)])
        for item in (batches.get(), batches.get()):
            item.value, memoryview(item[0 if item.nbytes == 5 else "x"]), repr(item)
        with out.slot(like=b"xx") as slot:
            memoryview(slot)[:] = b"xx"
        view = memoryview(batches.get())
        for wrong in (3, {"x": 3}, bytes(10**6)):
            with pytest.raises((TypeError, ValueError)):
                out.put(wrong)
        with pytest.raises(TimeoutError):
            batches.get(timeout=0)
        out.close(), batches.close(), channel.close()
        assert bytes(view) == b"xx"

    for _ in range(10):
        everything()
    gc.collect()
    before, fds = [len(gc.get_objects())], descriptors()
    for _ in range(200):
        everything()
    gc.collect()
    assert descriptors() == fds and len(gc.get_objects()) - before[0] < 100
    with open("/proc/self/maps", encoding="utf-8") as file:
        assert file.read().count("pergpu:channel") < 5
