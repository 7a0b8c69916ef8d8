"""A result that a call has returned is never lost, whatever the function has done to its process."""
import os

import pytest

from test_executor import python

CALLS = """
def closes():
    with open("train.log", "w") as log:
        sys.stdout = log
        print("epoch 1")
    return "closed"
def tees():
    class Tee:
        def write(self, text):
            return sys.__stdout__.write(text)
    sys.stdout = sys.stderr = Tee()
    print("told by the tee")
    return "tee"
def has_none():
    sys.stdout = sys.stderr = None
    return "none"
def closes_descriptors():
    os.close(1)
    os.close(2)
    return "descriptors"
def fills():
    sys.stdout = open("/dev/full", "w")
    print("lost")
    return "full"
def leaves_exits():
    import atexit
    atexit.register(lambda: 1 / 0)
    atexit.register(sys.exit, 3)
    return "exits"
def leaves_a_thread():
    import threading
    def work():
        time.sleep(0.2)
        raise OSError("of the thread")
    threading.Thread(target=work).start()
    return "thread"
def raises_without_streams():
    sys.stdout = sys.stderr = None
    raise KeyError("told all the same")
"""


@pytest.mark.parametrize("reuse", [False, True])
def test_a_returned_result_counts(home, reuse):
    told = python(home, CALLS + f"""
with pool(1, reuse={reuse}) as executor:
    functions = [closes, tees, has_none, closes_descriptors, fills, leaves_exits, leaves_a_thread]
    print([executor.submit(function).result() for function in functions])
    print(repr(executor.submit(raises_without_streams).exception()))
    print(executor.submit(print, "the next call prints").result())
""")  # fmt: skip
    assert told.splitlines() == [
        "['closed', 'tee', 'none', 'descriptors', 'full', 'exits', 'thread']", "KeyError('told all the same')", "None",
    ]  # fmt: skip
    assert set(home.states().values()) <= {"done", "failed"}


def test_what_was_printed_is_on_the_log_and_what_could_not_be_is_said(home):
    python(home, CALLS + """
with pool(1) as executor:
    for function in (tees, fills):
        future = executor.submit(function)
        future.result()
        print(function.__name__, future.logs())
        assert ("told by the tee" if function is tees else "No space left on device") in future.logs()
""")  # fmt: skip


@pytest.mark.parametrize("reuse", [False, True])
def test_a_forked_child_that_comes_out_of_the_function_does_not_take_its_parents_place(home, reuse):
    told = python(home, f"""
def forks(raises):
    child = os.fork()
    if child == 0:
        if raises:
            raise KeyError("of the child")
        return "of the child"
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return "of the parent", status
with pool(1, reuse={reuse}) as executor:
    futures = [executor.submit(forks, raises) for raises in (False, True)]
    print([future.result() for future in futures])
    print("returned from the function and ends here" in futures[0].logs(), executor.submit(abs, -1).result())
""")  # fmt: skip
    assert told == "[('of the parent', 1), ('of the parent', 1)]\nTrue 1\n"


@pytest.mark.parametrize("of", ["threading.Thread", "multiprocessing.Process"])
def test_a_result_counts_from_the_return_whatever_holds_the_process_after_it(home, of):
    told = python(home, """
import multiprocessing, threading, warnings
def lives_on():
    %s(target=time.sleep, args=(1000,)).start()
    return "returned"
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with pool(1, grace="1s") as executor:
        future = executor.submit(lives_on)
        print(future.result(timeout=60), future.done(), future.outcome["state"])
        future.kill()
        while future.outcome["state"] not in ("cancelled", "failed"):
            time.sleep(0.01)
    print(future.result(), future.outcome["state"])
print([str(one.message) for one in caught if "has returned" in str(one.message)])
""" % of)  # fmt: skip
    lines = told.splitlines()
    assert lines[:2] == ["returned True running", "returned cancelled"]
    assert "then its process ended as cancelled" in lines[2]


@pytest.mark.parametrize("reuse", [False, True])
def test_a_large_argument_of_many_calls_is_written_once(home, reuse):
    pytest.importorskip("numpy")
    told = python(home, f"""
import numpy
array = numpy.ones(1 << 20)
def total(array, i):
    array[0] = 9
    return array.sum() + i
with pool(2, reuse={reuse}, name="large") as executor:
    print([int(future.result()) - (1 << 20) for future in [executor.submit(total, array.copy(), i) for i in range(5)]])
""")  # fmt: skip
    assert told == "[8, 9, 10, 11, 12]\n"
    found = [os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(home.work + "/runs/large/_calls") for name in names]
    assert [size for size in found if size > 1 << 20] == [8 << 20]
