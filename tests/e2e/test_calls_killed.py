"""kill -9 of the coordinator and of the processes that run calls: each call has its result, or the exception of its end."""
import contextlib
import json
import os
import random
import signal

import pytest
from harness import LONG, alive, read, wait_until
from test_executor import begun, rest_of  # noqa: F401  a fixture among them

CALLS, COORDINATORS, WORKERS = (2000, 30, 100) if LONG else (120, 2, 6)


@pytest.mark.parametrize("reuse", [True, False])
def test_kills_lose_no_call(home, begun, reuse):  # noqa: F811
    process = begun(f"""
def work(i, path={home.work + "/began"!r}):
    with open(path, "a") as began:
        began.write(".")
    time.sleep(0.06)
    return i * i
with pool(4, reuse={reuse}, timeout=None, breaker=0) as executor:
    futures = [executor.submit(work, i) for i in range({CALLS})]
    wrong, ended = [], []
    for i, future in enumerate(futures):
        try:
            if future.result(timeout=200) != i * i:
                wrong.append(i)
        except pergpu.JobFailed as error:
            ended.append(error.reason)
print(json.dumps([wrong, ended]))
""")
    rng = random.Random(int(reuse))
    of_calls = "_start.py _worker" if reuse else "_start.py _call"
    kills = sorted(
        [(rng.randrange(CALLS - CALLS // 20), "worker") for _ in range(WORKERS)]
        + [(rng.randrange(CALLS - CALLS // 20), "coordinator") for _ in range(COORDINATORS)]
    )
    killed = 0
    for after, what in kills:
        wait_until(lambda: process.poll() is not None or len(read(home.work + "/began", "")) > after, "begun calls", 200)
        if process.poll() is not None:
            break
        if what == "coordinator":
            home.kill_coordinator()
            continue
        # It may end by itself before it's hit; at the end there are none.
        wait_until(lambda: process.poll() is not None or home.processes(of_calls), f"a process of {of_calls}")
        with contextlib.suppress(ProcessLookupError, IndexError):
            os.kill(rng.choice(home.processes(of_calls)), signal.SIGKILL)
            killed += 1
    print(f"{killed} of {WORKERS} killed")
    wrong, ended = json.loads(rest_of(process).splitlines()[-1])
    print(f"{len(ended)} calls ended by that")
    assert killed and not wrong
    assert len(ended) <= killed and set(ended) <= {"killed by signal 9 (SIGKILL)"}
    wait_until(lambda: not any(alive(pid) for pid in home.processes(of_calls)), "the end of all calls")


def test_workers_killed_before_their_first_call_break_nothing_while_others_return_calls(home, begun):  # noqa: F811
    process = begun("""
def work(i):
    time.sleep(0.03)
    return os.getpid()
with pool(2, reuse=True) as executor:
    print(executor.submit(work, 0).result(), flush=True)
    futures = [executor.submit(work, i) for i in range(150)]
    print(sum(future.exception() is None for future in futures))
""")
    seen = {int(process.stdout.readline())}
    for _ in range(5):
        wait_until(lambda: process.poll() is not None or set(home.processes("_start.py _worker")) - seen, "a fresh worker")
        for pid in set(home.processes("_start.py _worker")) - seen:
            seen.add(pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert 140 <= int(rest_of(process)) <= 150 and len(seen) > 5
