"""Memory that calls of an executor share: it stays while the executor is open."""
import os
import subprocess

import pytest

import harness
from test_share_meeting import JOB, jobs, memory_of_ours  # noqa: F401 (jobs is a fixture)

BEGIN = JOB.replace('os.environ["PERGPU_JOB"]', '"0"') + """
import pergpu
def train():
    shared = share.parameters({"w": array.array("d", [0] * 3)})
    with shared.update():
        memoryview(shared["w"])[1] += 1
    return shared.count("steps"), memoryview(shared["w"])[1]
def look(**options):
    return memoryview(share.dataset("numbers", load, scope="sweep", **options))[7]
def executor(**options):
    return pergpu.Executor(1, **{"gpus": 0, "timeout": "60s", "name": "calls", **options})
def here():
    return {os.readlink(f"/proc/self/fd/{fd}").split()[0] for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")}
if __name__ == "__main__":
"""


@pytest.fixture
def script(home, jobs):  # noqa: F811
    def run(text):
        path = home.file("script.py", BEGIN + "".join(f"    {line}\n" for line in text.strip().splitlines()))
        done = subprocess.run(["/usr/bin/python3", path], cwd=home.work, env=home.env, text=True, capture_output=True, timeout=100)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("reuse", [False, True])
def test_it_stays_between_calls_and_goes_with_the_executor(home, jobs, script, reuse):  # noqa: F811
    told = script(f"""
for _ in range(2):
    with executor(reuse={reuse}) as pool:
        print([pool.submit(train).result() for _ in range(3)], [pool.submit(look).result() for _ in range(2)])
print({{link for link in here() if "memfd:pergpu" in link}})
""")
    assert told == 2 * "[(1, 1.0), (2, 2.0), (3, 3.0)] [7, 7]\n" + "set()\n"
    assert len(jobs.told("loads")) == 2
    harness.wait_until(lambda: memory_of_ours(home) == [], "the end of its memory")
    assert not [name for name in os.listdir(home.work + "/runs/calls/_calls") if "holder" in name]


def test_calls_that_are_queued_when_the_executor_is_closed_have_it(home, jobs, script):  # noqa: F811
    told = script("""
with executor() as pool:
    pool.submit(train).result()
    futures = [pool.submit(train) for _ in range(2)]
print([future.result()[0] for future in futures])
""")
    assert told == "[2, 3]\n"


@pytest.mark.parametrize("reuse", [False, True])
def test_arrays_that_a_call_returns_are_copies(home, jobs, script, reuse):  # noqa: F811
    assert script(f"""
def returns():
    shared = share.dataset("returned", load)
    memoryview(shared)[0] = 70  # of its own from now on
    return dict(loss=0.5, y=shared)
with executor(reuse={reuse}) as pool:
    future = pool.submit(returns)
y = future.result()["y"]
print(future.result()["loss"], type(y).__name__, memoryview(y)[0], memoryview(y)[7])
""") == "0.5 Array 70 7\n"


def test_what_a_call_drops_is_loaded_again(home, jobs, script):  # noqa: F811
    told = script("""
def dropping():
    return look(), share.drop("numbers"), look()
with executor() as pool:
    print(pool.submit(look).result(), pool.submit(dropping).result(), pool.submit(look).result())
""")
    assert told == "7 (7, True, 7) 7\n" and len(jobs.told("loads")) == 2


def test_where_the_program_is_killed_its_calls_go_on(home, jobs, script):  # noqa: F811
    with harness.starting:
        text = BEGIN + "    pool = executor()\n    pool.submit(train).result()\n    pool.submit(gate)\n    last = pool.submit(train)\n    print(last.job, flush=True)\n    last.result()\n"
        process = subprocess.Popen(["/usr/bin/python3", home.file("script.py", text)], cwd=home.work, env=home.env, text=True,
                                   stdout=subprocess.PIPE)  # fmt: skip
        harness.started.add(process.pid)
    home.started.append(process)
    home.close_gate()
    job = process.stdout.readline().strip()
    process.kill()
    home.open_gate()
    assert home.wait() == 0
    assert job == "3" and set(home.states().values()) == {"done"}
