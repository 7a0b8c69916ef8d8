"""`pergpu.joblib`: loops of joblib as jobs, and what joblib's own tests say of it."""
import os
import subprocess
import sys

import pytest

import harness
from test_executor import environment
from test_gpus import gpus, world  # noqa: F401

pytest.importorskip("joblib")

HERE = os.path.dirname(os.path.abspath(__file__))
BEGIN = """
import json, os, sys, threading, time
import joblib, pergpu.joblib
from joblib import Parallel, delayed
config = getattr(joblib, "parallel_config", joblib.parallel_backend)  # joblib before 1.3
def lanes(count=2, **keys):
    return config("pergpu", **{"gpus": 0, "lanes": count, "timeout": "60s", **keys})
"""


def python(home, *words, code=0, **more):
    process = subprocess.run(
        [sys.executable, *words], cwd=home.work, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        timeout=280, env={**environment(home), **more},
    )  # fmt: skip
    assert process.returncode == code, process.stdout
    return process.stdout


def script(home, text):
    return python(home, home.file("script.py", BEGIN + text)).splitlines()


# What asks in a process of joblib's own, where nobody has imported pergpu.joblib, for "pergpu".
ELSEWHERE = ("loky", "back_compat_backend")


@pytest.mark.parametrize("reuse", ["1", *(["0"] if harness.LONG else [])])
def test_joblib_s_own_tests_pass(home, reuse):
    left_out = " and not ".join(f"test_nested_loop[{one}-pergpu]" for one in ELSEWHERE)
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "joblib_backend", "--pyargs", "joblib.test.test_parallel"]
    env = {"PYTHONPATH": f"{environment(home)['PYTHONPATH']}:{HERE}", "PERGPU_TEST_REUSE": reuse}
    out = python(home, *words, "-k", f"pergpu and not {left_out}", **env)
    passed = int(out.rpartition(" passed")[0].split()[-1])
    assert passed >= 29 and " failed" not in out and " skipped" not in out, out


def test_the_loops_of_a_with_are_calls_of_one_sweep(home):
    lines = script(home, """
def f(x):
    return x * x, os.environ["PERGPU_JOB"]
with lanes(name="squares", reuse=False):
    print([x for x, _ in Parallel()(delayed(f)(i) for i in range(3))])
    print([x for x, _ in Parallel(n_jobs=3, batch_size=2)(delayed(f)(i) for i in range(6))])
""")  # fmt: skip
    assert lines == ["[0, 1, 4]", "[0, 1, 4, 9, 16, 25]"]
    jobs = home.json("show", "squares")["jobs"]
    assert {job["state"] for job in jobs} == {"done"} and len(jobs) == 6
    assert jobs[0]["params"]["what"] == "f()" and jobs[-1]["params"]["what"] == "2 × f()"


def test_workers_stay_for_a_loop_unless_retries_are_asked_for(home):
    lines = script(home, """
def f(x):
    time.sleep(0.3)
    return os.getpid()
def once(x):
    if os.environ["PERGPU_ATTEMPT"] == "1" and x == 1:
        os.kill(os.getpid(), 9)
    return os.getpid()
with lanes(name="warm"):
    print(len(set(Parallel(batch_size=1)(delayed(f)(i) for i in range(8)))))
with lanes(name="cold", retries=1):
    print(len(set(Parallel(batch_size=1)(delayed(once)(i) for i in range(3)))))
""")  # fmt: skip
    assert lines == ["2", "3"]
    assert len(home.ps("warm")) == 2
    assert sorted(job["attempt"] for job in home.ps("cold").values()) == [1, 1, 2]


def test_tasks_of_a_batch_share_a_job(home):
    lines = script(home, """
def f(x):
    return os.environ["PERGPU_JOB"]
with lanes(reuse=False):
    print(len(set(Parallel(batch_size=10, pre_dispatch="all")(delayed(f)(i) for i in range(40)))))
""")  # fmt: skip
    assert lines == ["4"]


def test_all_lanes_are_jobs_also_where_there_is_one(home):
    lines = script(home, """
def f(x):
    begin = time.monotonic()
    time.sleep(0.2)
    return os.getpid() != here, begin, time.monotonic()
here = os.getpid()
with lanes(1):
    found = Parallel(n_jobs=-1)(delayed(f)(i) for i in range(3))
print(all(apart for apart, _, _ in found), all(a[2] <= b[1] for a, b in zip(found, found[1:])))
with lanes(1):
    print(Parallel(n_jobs=1)(delayed(f)(i) for i in range(1))[0][0])
""")  # fmt: skip
    assert lines == ["True True", "False"]


def test_loops_within_a_task_are_threads_of_its_job(home):
    lines = script(home, """
def inner(i):
    return os.environ["PERGPU_JOB"], os.getpid(), threading.get_ident(), time.sleep(0.2)
def outer(i):
    found = Parallel(n_jobs=2)(delayed(inner)(i) for i in range(4))
    return len({job for job, *_ in found}), len({pid for _, pid, *_ in found}), len({thread for _, _, thread, _ in found})
with lanes(name="outer", reuse=False):
    print(Parallel(batch_size=1)(delayed(outer)(i) for i in range(2)))
""")  # fmt: skip
    assert lines == ["[(1, 1, 2), (1, 1, 2)]"]
    assert len(home.ps()) == 2


def test_a_failing_task_ends_the_loop_and_the_next_loop_goes_on(home):
    lines = script(home, """
def f(x):
    if x == 1:
        raise ValueError(f"no {x}")
    if x == 2:
        time.sleep(600)
    if x == 5:
        os._exit(3)
    return x
with lanes(3, name="loops"):
    for loop in ([0, 1, 2, 2, 2], [0, 5], [3, 4]):
        try:
            print(Parallel(batch_size=1)(delayed(f)(i) for i in loop))
        except (ValueError, pergpu.JobFailed) as error:
            print(type(error).__name__, str(error).splitlines()[0], "in f" in str(error.__cause__))
    with Parallel(n_jobs=2) as parallel:
        for loop in ([0, 1, 2], [3, 4]):
            try:
                print(parallel(delayed(f)(i) for i in loop))
            except ValueError as error:
                print(error)
    try:
        Parallel(n_jobs=2)(delayed(f)(threading.Lock()) for i in range(500))
    except Exception as error:
        print(type(error).__name__, "lock" in str(error))
""")  # fmt: skip
    assert lines[0] == "ValueError no 1 True" and lines[1].startswith("JobFailed call loops/"), lines
    assert lines[2:] == ["[3, 4]", "no 1", "[3, 4]", "PicklingError True"]


def test_a_task_that_takes_too_long_for_the_loop_ends_it(home):
    lines = script(home, """
import multiprocessing
with lanes():
    try:
        Parallel(timeout=2)(delayed(time.sleep)(600) for i in range(2))
    except (TimeoutError, multiprocessing.TimeoutError):
        print("too long")
""")  # fmt: skip
    assert lines == ["too long"]


def test_an_array_of_many_tasks_is_written_once(home):
    pytest.importorskip("numpy")
    lines = script(home, """
import numpy
data = numpy.arange(3e5).reshape(3, 100000)
out = numpy.memmap("out", mode="w+", shape=(4, 3), dtype="f8")
def f(i, data, out):
    folder = os.path.join(os.environ["PERGPU_OUT"], "../../_calls/arrays")
    out[0, 1] = i + 1
    try:
        data[0, 0] = 7
    except ValueError as error:
        return data.sum(), len(os.listdir(folder)), str(error)
with lanes(name="arrays", reuse=False):
    found = Parallel(batch_size=1)(delayed(f)(i, data, out[:, ::-1][i:, ::2]) for i in range(3))
print({one == (data.sum(), 1, "assignment destination is read-only") for one in found})
print(out.tolist(), os.path.exists("runs/arrays/_calls/arrays"))
print(max(os.path.getsize(f"runs/arrays/_calls/{i}") for i in range(3)) < 100000)
with lanes():
    print(Parallel(mmap_mode="c")(delayed(lambda a: a.__setitem__(0, 1) or float(a[0, 9]))(data) for i in range(2)))
    print(Parallel(max_nbytes=None)(delayed(lambda a: a.__setitem__(0, 1) or float(a[0, 9]))(data) for i in range(2)))
print(data[0, 9])
""")  # fmt: skip
    # The second column of the view out[:, ::-1][i:, ::2] is the first one of the array.
    assert lines[0] == "{True}", lines
    assert lines[1] == "[[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.0]] False"
    assert lines[2:] == ["True", "[1.0, 1.0]", "[1.0, 1.0]", "9.0"]


def test_an_array_of_one_task_is_not_kept(home):
    pytest.importorskip("numpy")
    lines = script(home, """
import numpy
folder = "runs/many/_calls/arrays"
most, left = [], []
def data():
    for i in range(20):
        most.append(len(os.listdir(folder)) if os.path.exists(folder) else 0)
        yield delayed(numpy.mean)(numpy.full(200000, float(i)))
with lanes(name="many"):
    print(Parallel(batch_size=1)(data()) == [*range(20)], max(most) < 12)
""")  # fmt: skip
    assert lines == ["True True"], lines


def test_threads_of_libraries_are_limited(home):
    lines = script(home, """
def f():
    return os.environ["OMP_NUM_THREADS"], os.environ.get("MORE")
with lanes(inner_max_num_threads=3, env={"MORE": "1"}):
    print(Parallel()(delayed(f)() for i in range(2)))
""")  # fmt: skip
    assert lines == ["[('3', '1'), ('3', '1')]"]


def test_tasks_have_a_gpu_each(gpus):  # noqa: F811
    lines = script(gpus, """
def f(x):
    time.sleep(0.5)
    return os.environ["CUDA_VISIBLE_DEVICES"]
with config("pergpu", timeout="60s"):
    print(joblib.effective_n_jobs(-1), joblib.effective_n_jobs(-3))
    print(len(set(Parallel(batch_size=1)(delayed(f)(i) for i in range(16)))))
""")  # fmt: skip
    assert lines == ["8 6", "8"]


def test_what_is_wrong_with_the_keys_is_said_at_once(home):
    lines = script(home, """
for keys in ({"gpus": 1, "lanes": None}, {"tmeout": "2h"}):
    try:
        with lanes(**keys):
            Parallel()(delayed(abs)(i) for i in range(2))
    except (ValueError, pergpu.CommandFailed) as error:
        print(error)
""")  # fmt: skip
    assert "this machine has no GPU" in lines[0] and any("tmeout" in line for line in lines[1:]), lines
    assert home.json("ps", "-a")["jobs"] == []
