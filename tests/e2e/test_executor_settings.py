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


def test_one_name_in_two_folders_is_two_sweeps(home):
    """Settings, results of earlier runs, and attach() are those of the folder."""
    told = python(home, """
def train(i):
    with open(os.environ["STAMPS"], "a") as file:
        file.write(f"start {i} 1 1 - -\\n")
    return i, os.getcwd()[-1]
def project(folder, count):
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    with pool(1, name="train", resume=True) as executor:
        found = [executor.submit(train, i).result() for i in range(count)]
    os.chdir("..")
    return found
print(project("a", 2), project("b", 1), project("a", 3))
try:
    pergpu.attach("train")
except pergpu.CommandFailed as error:
    print(error)
print([len(pergpu.attach("train", out=folder + "/runs")) for folder in "ab"])
for name, out in (("train", "c"), ("nothing", None), (17.5, None)):
    try:
        pergpu.attach(name, out=out)
    except (pergpu.CommandFailed, TypeError) as error:
        print(error)
os.chdir("b")
print([future.result() for future in pergpu.attach("train")])
for wrong in (dict(env={"A": "1"}), dict(reuse=True)):
    try:
        pool(1, name="train", **wrong)
    except ValueError as error:
        print(str(error).partition("choose")[0])
os.chdir("../a")
os.unlink("runs/train/_calls/settings.json")
print([future.job for future in pergpu.attach("train", out="runs")])
""")  # fmt: skip
    lines = told.replace(home.work, "").splitlines()
    assert lines[0] == "[(0, 'a'), (1, 'a')] [(0, 'b')] [(0, 'a'), (1, 'a'), (2, 'a')]"
    assert home.stamps.of("start") == [0, 1, 0, 2], "what project a has is not run again"
    assert lines[1] == "calls named 'train' are in 2 folders; say which: attach('train', out=…)"
    assert [line.partition(":")[0] for line in lines[2:4]] == ['  out="/a/runs"', '  out="/b/runs"']
    assert lines[4:6] == ["[3, 1]", "no calls are named 'train' in /c"]
    assert lines[6].startswith("no calls are named 'nothing'; there ")
    assert lines[7:9] == ["name is 17.5; expected the name of an executor, as str", "[(0, 'b')]"]
    assert "env is none there" in lines[9] and "reuse is False there" in lines[10] and lines[11:] == ["[1, 2, 4]"]


def test_queued_calls_keep_their_settings_also_if_another_folder_has_the_name(home, begun):  # noqa: F811
    process = begun("""
with pool(1, name="train", out="elsewhere") as executor:
    executor.submit(abs, -1).result()
one = pool(1, name="train", timeout="60s")
future = one.submit(stamp, 3)
print(future.job, flush=True)
try:
    pool(1, name="train", timeout="1s")
except ValueError as error:
    print(str(error).partition(";")[0], flush=True)
print(future.result())
""")
    home.close_gate()
    told = [process.stdout.readline(), process.stdout.readline()]
    home.open_gate()
    assert told == ["2\n", "1 call named 'train' would get these settings, too: timeout is '60s' there, '1s' here\n"], rest_of(process)
    assert rest_of(process) == "9\n"
