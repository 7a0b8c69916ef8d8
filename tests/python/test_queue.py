"""The queue of warm workers: each call is taken once, whoever asks and whoever dies."""
import fcntl
import itertools
import os
import pickle
import signal
import subprocess
import sys
import threading

from pergpu._queue import CANCELLED, FREE, Queue


def made(tmp_path, calls=0):
    queue = Queue(str(tmp_path), create=True)
    for i in range(calls):
        assert queue.append(pickle.dumps(i)) == i
    return queue


def test_calls_are_taken_in_order_and_once(tmp_path):
    queue, other = made(tmp_path, 5), Queue(str(tmp_path))
    assert [queue.take(7), other.take(8), queue.take(7)] == [0, 1, 2]
    assert [other.owner(i) for i in range(5)] == [7, 8, 7, FREE, FREE] and other.free() == 2
    assert queue.cancel(3) and queue.cancel(3) and not queue.cancel(0)
    assert other.take(9) == 4 and other.take(9) is None and queue.owner(3) == CANCELLED
    assert queue.append(pickle.dumps("more")) == 5 and other.take(9) == 5
    assert [other.load(i) for i in range(6)] == [0, 1, 2, 3, 4, "more"] and len(other) == 6


def test_it_grows_under_those_who_have_it_open(tmp_path):
    queue = made(tmp_path)
    other = Queue(str(tmp_path))
    for i in range(10_000):
        queue.append(pickle.dumps(i))
    assert [other.take(1) for _ in range(10_000)] == [*range(10_000)] and other.take(1) is None
    assert other.load(9_999) == 9_999


def test_large_buffers_lie_beside_it(tmp_path):
    queue, buffers = made(tmp_path, 1), []
    pickled = pickle.dumps(pickle.PickleBuffer(b"x" * 100_000), 5, buffer_callback=buffers.append)
    queue.append(pickled, [one.raw() for one in buffers])
    assert bytes(Queue(str(tmp_path)).load(1)) == b"x" * 100_000 and (tmp_path / "call-1").exists()


TAKER = """
import sys
sys.path.insert(0, sys.argv[1])
from pergpu._queue import Queue
queue = Queue(sys.argv[2])
while True:
    number = queue.take(int(sys.argv[3]))
    if number is not None:
        print(number, flush=True)
"""


def test_processes_that_are_killed_lose_no_other_call(tmp_path):
    """What a killed one has taken without telling is known by the index: nobody takes it again."""
    queue = made(tmp_path)
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python")
    takers = [
        subprocess.Popen([sys.executable, "-c", TAKER, root, str(tmp_path), str(job)], stdout=subprocess.PIPE, text=True)
        for job in (1, 2, 3)
    ]
    told = {1: [], 2: [], 3: []}
    threads = []
    for job, taker in zip(told, takers):
        threads.append(threading.Thread(target=lambda job=job, taker=taker: told[job].extend(map(int, taker.stdout))))
        threads[-1].start()
    for i in range(3000):
        queue.append(pickle.dumps(i))
    takers[0].send_signal(signal.SIGKILL)
    takers[0].wait()
    while queue.free():
        pass
    for taker in takers[1:]:
        taker.kill()
        taker.wait()
    for thread in threads:
        thread.join()
    for taker in takers:
        taker.stdout.close()
    owners = {job: [i for i in range(3000) if queue.owner(i) == job] for job in told}
    assert sorted(sum(owners.values(), [])) == [*range(3000)]
    for job, numbers in told.items():
        assert numbers == sorted(set(numbers)) and set(numbers) <= set(owners[job])
        assert len(owners[job]) - len(numbers) <= 1, "told of each one but the last"


def test_an_exception_from_a_signals_handler_at_any_place_leaves_it_free_and_whole(tmp_path):
    """Python calls handlers where its own functions begin, and where those of C return."""
    queue = made(tmp_path)
    buffers = [memoryview(b"x" * 100_000)]
    for change in (lambda: queue.append(b"cut off"), lambda: queue.append(b"cut off", buffers), lambda: queue.cancel(0)):
        for at in itertools.count(1):
            left = at

            def interrupt(_frame, event, _what):
                nonlocal left
                left -= event in ("call", "c_return")
                if left == 0:
                    raise KeyboardInterrupt

            sys.setprofile(interrupt)
            try:
                change()
            except KeyboardInterrupt:
                pass
            sys.setprofile(None)
            assert not queue._lock.locked(), at
            other = os.open(tmp_path / "index", os.O_RDWR)
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(other)
            assert queue.load(queue.append(pickle.dumps(at))) == at
            if left > 1:  # it has come to its end
                break
