"""A program that is run again, with resume=True, gets what its earlier run has computed."""
import re

from test_executor import begun, python, rest_of  # noqa: F401 (begun is a fixture)

SCRIPT = """
import dataclasses, enum
SCALE = {scale}
class Kind(enum.Enum):
    ONE = 1
@dataclasses.dataclass
class Config:
    lr: float
    kind: Kind
    names: set
def helper(x):
    return x * SCALE
def train(config, seed=0):
    with open("ran", "a") as file:
        file.write(f"{{seed}} ")
    if seed == 3 and not os.path.exists("repaired"):
        raise ValueError("diverged")
    return helper(config.lr), seed
with pool(2, name="train", resume={resume}{more}) as executor:
    futures = [executor.submit(train, Config(0.5, Kind.ONE, {{"a", "b", "c"}}), seed) for seed in range({count})]
    print([future.result() if future.exception() is None else str(future.exception()) for future in futures])
"""


def run(home, scale=2, resume=True, count=4, more=""):
    out = python(home, SCRIPT.format(scale=scale, resume=resume, count=count, more=more))
    ran = home.work + "/ran"
    try:
        with open(ran) as file:
            text = file.read()
    except FileNotFoundError:
        text = ""
    open(ran, "w").close()
    return out.strip(), sorted(text.split())


def test_what_has_returned_is_not_run_again(home):
    first = "[(1.0, 0), (1.0, 1), (1.0, 2), 'diverged']"
    assert run(home, resume=False) == (first, ["0", "1", "2", "3"]), "what is written down doesn't need resume=True"
    assert run(home) == (first, ["3"])
    home.file("repaired", "")
    assert run(home, count=5) == ("[(1.0, 0), (1.0, 1), (1.0, 2), (1.0, 3), (1.0, 4)]", ["3", "4"])
    assert run(home, count=5, more=', memory="1GiB"')[1] == []
    assert run(home, scale=4, count=1) == ("[(2.0, 0)]", ["0"]), "a global variable that it uses has another value"
    assert run(home, resume=False, count=1)[1] == ["0"]


def test_equal_calls_stay_as_many_as_they_are(home):
    text = """
def number():
    return int(os.environ["PERGPU_JOB"])
with pool(1, name="same", resume=True) as executor:
    print([executor.submit(number).result() for _ in range(%d)])
"""
    assert python(home, text % 2) == "[1, 2]\n"
    assert python(home, text % 3) == "[1, 2, 3]\n"


def test_calls_that_still_run_are_waited_for(home, begun):  # noqa: F811
    text = """
with pool(1, name="calls", resume=True) as executor:
    futures = [executor.submit(stamp, i) for i in range(3)]
    print([future.job for future in futures], flush=True)
    print([future.result() for future in futures], flush=True)
"""
    home.close_gate()
    first = begun(text)
    assert first.stdout.readline() == "[1, 2, 3]\n"
    first.kill()
    first.wait()
    second = begun(text)
    assert second.stdout.readline() == "[1, 2, 3]\n"
    home.open_gate()
    assert rest_of(second) == "[0, 1, 4]\n"
    assert len(home.ps("calls")) == 3 and home.stamps.count("start") == 3


def test_what_comes_along_with_a_call_is_compared(home):
    """Initializer, its arguments, the program's own, and the script where the call runs it."""
    home.file("shared.py", "value = None\n")
    script = """
import shared
def begin(x):
    shared.value = (x, {of_code})
def train(i):
    return shared.value, sys.argv[1:], __name__ == "__main__" or TOP
TOP = sum([{top}])
if __name__ == "__main__":
    sys.argv[:] = {argv}
    with pool(1, name="calls", resume=True, initializer=begin, initargs={initargs}, main="{main}") as executor:
        future = executor.submit(train, 1)
        print(future.job, future.result())
"""
    first = dict(of_code=1, argv=["x", "--lr", "1"], initargs=(5,), main="value", top=3)
    changes = [{}, {"argv": ["./x", "--lr", "1"]}, {"argv": ["x", "--lr", "2"]}, {"initargs": (6,)}, {"of_code": 2},
               {"main": "run"}, {"main": "run", "top": "1, 2"}, {}]  # fmt: skip
    told = [python(home, script.format(**{**first, **change})).strip() for change in changes]
    assert told == [
        "1 ((5, 1), ['--lr', '1'], True)",
        "1 ((5, 1), ['--lr', '1'], True)",
        "2 ((5, 1), ['--lr', '2'], True)",
        "3 ((6, 1), ['--lr', '1'], True)",
        "4 ((5, 2), ['--lr', '1'], True)",
        "5 ((5, 1), ['--lr', '1'], 3)",
        "6 ((5, 1), ['--lr', '1'], 3)",
        "1 ((5, 1), ['--lr', '1'], True)",
    ]


def test_after_its_folder_was_removed_a_call_runs_again(home):
    told = python(home, """
import shutil, subprocess
for _ in range(2):
    with pool(1, name="calls", resume=True) as executor:
        print(executor.submit(abs, -3).result())
    subprocess.run([os.environ["PERGPU_BIN"], "wait", "calls"], stdout=subprocess.DEVNULL)
    os.rename("runs/calls", f"removed.{time.monotonic()}")
""")  # fmt: skip
    assert told == "3\n3\n" and len(home.ps("calls")) == 2


def test_it_needs_a_name_and_processes_of_calls(home):
    told = python(home, """
for wrong in (dict(), dict(name="a", reuse=True)):
    try:
        pool(1, resume=True, **wrong)
    except ValueError as error:
        print(error)
""")  # fmt: skip
    assert re.fullmatch("resume=True needs the name .*\nresume=True needs a process .*\n", told)
