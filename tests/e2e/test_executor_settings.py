"""Executors of one name: each call keeps the settings with which it was submitted."""
import pytest

from test_executor import begun, python, rest_of  # noqa: F401 (begun is a fixture)


@pytest.mark.parametrize("reuse", [False, True])
def test_other_settings_are_refused_while_calls_are_queued(home, begun, reuse):  # noqa: F811
    process = begun(f"""
first = pool(1, name="train", memory="1GiB", timeout="60s", reuse={reuse})
futures = [first.submit(stamp, i) for i in range(2)]
while not first._calls._jobs:
    time.sleep(0.01)
for other in (dict(memory="2GiB"), dict(priority=1), dict(reuse={not reuse}), dict(env={{"A": "1"}})):
    try:
        pool(1, **{{"name": "train", "memory": "1GiB", "reuse": {reuse}, **other}})
    except ValueError as error:
        print(error)
print(pool(1, name="train", memory="1GiB", reuse={reuse}).submit(abs, -3), "goes along", flush=True)
print([future.result() for future in futures], flush=True)
first.shutdown()
""")
    home.close_gate()
    told = [process.stdout.readline() for _ in range(5)]
    home.open_gate()
    assert "Traceback" not in told[0], rest_of(process)
    assert "memory is '1GiB' there, '2GiB' here" in told[0] and "priority is none there, 1 here" in told[1]
    assert f"reuse is {reuse} there, {not reuse} here; choose another name" in told[2] and "env is none there" in told[3]
    assert "goes along" in told[4]
    assert rest_of(process) == "[0, 1]\n"


def test_when_the_calls_have_ended_other_settings_are_the_sweeps(home):
    told = python(home, """
for timeout in ("60s", "50s"):
    with pool(1, name="train", timeout=timeout) as executor:
        print(executor.submit(abs, -1).result())
os.mkdir("elsewhere")
os.chdir("elsewhere")
try:
    pool(1, name="train", timeout="50s", out="../runs")
except ValueError as error:
    print("folder is" in str(error), "choose another name" in str(error))
""")  # fmt: skip
    assert told == "1\n1\nTrue True\n"
    assert set(home.states("train").values()) == {"done"}


def test_who_comes_between_changes_nothing(home):
    """Both executors are made before either has handed over."""
    told = python(home, """
one, two = pool(1, name="train", timeout="30s"), pool(1, name="train", timeout="1s", retries=2)
futures = [one.submit(time.sleep, 1.5) for _ in range(2)]
futures[-1].job
error = two.submit(abs, -1).exception()
print(type(error).__name__, str(error).partition(":")[0])
print([future.result() for future in futures])
""")  # fmt: skip
    assert told == "BrokenExecutor 2 calls named 'train' would get these settings, too\n[None, None]\n"
