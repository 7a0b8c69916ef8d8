"""What executors leave on the disk."""
import os
import subprocess
import sys

import pytest

import harness
from test_executor import BEGIN, environment

SCRIPT = """
def big(i):
    print("in the log")
    return bytearray(200_000 + i)
with pool(1, {options}) as executor:
    futures = [executor.submit(big, i) for i in range(3)]
    last = executor.submit(len, bytearray(5 << 20))
    assert [len(future.result()) for future in futures[:{read}]] == [200_000 + i for i in range({read})]
    concurrent.futures.wait([*futures, last])
    {work}
{end}
"""


def left(home, options="", read=3, work="last.result()", end="", code=0):
    """Names of files of arguments, and of results."""
    script = home.file("script.py", BEGIN + SCRIPT.format(options=options, read=read, work=work, end=end))
    done = subprocess.run([sys.executable, script], cwd=home.work, env=environment(home), text=True, capture_output=True, timeout=100)
    assert done.returncode == code, done.stderr
    found = [os.path.join(folder, name) for folder, _, names in os.walk(home.work + "/runs") for name in names]
    assert any(harness.read(path) for path in found if path.endswith("/log.txt"))
    arguments = [os.path.basename(path) for path in found if "/_calls/" in path and not path.endswith("settings.json")]
    return sorted(arguments), len([path for path in found if os.path.basename(path) == "result" or "result-" in path])


@pytest.mark.parametrize("reuse", [False, True])
def test_without_a_name_nothing_of_arguments_and_results_stays(home, reuse):
    assert left(home, f"reuse={reuse}") == ([], 0)


def test_with_a_name_all_stays(home):
    assert left(home, 'name="kept"') == (["0", "1", "2", "3"], 4)


def test_a_result_that_was_not_read_stays(home):
    arguments, results = left(home, read=1, work="last.result()")
    assert results == 2 and not {"0", "1", "2", "3"}.intersection(arguments)


def test_what_failed_can_be_run_again(home):
    arguments, results = left(home, work="last.result(); executor.submit(os._exit, 3).exception()")
    assert arguments == ["4"] and results == 0
    home.run("retry", "5")
    home.wait()
    assert home.json("show", "5")["jobs"][0]["reason"] == "exit code 3"


def test_after_an_exception_of_the_program_results_are_there(home):
    _, results = left(home, end="1 / 0", code=1)
    assert results == 4
    told = subprocess.run([sys.executable, "-c", "import pergpu\nprint([future.result() for future in pergpu.attach()][-1])"], cwd=home.work,
                          env=environment(home), text=True, capture_output=True, timeout=100)  # fmt: skip
    assert told.stdout == f"{5 << 20}\n", told.stderr


def test_attach_says_where_a_result_went(home):
    left(home)
    told = subprocess.run([sys.executable, "-c", "import pergpu\nprint(pergpu.attach()[0].exception())"], cwd=home.work,
                          env=environment(home), text=True, capture_output=True, timeout=100)  # fmt: skip
    assert "results that were read are then removed at the end" in told.stdout, told.stderr
