"""Calls of Python in a results folder where another user may write: neither read nor led to private files."""
import os
import shutil
import subprocess
import sys

from harness import DEADLINE, started, starting
from two_users import SECRET

PYTHON = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python")
TWO_CALLS = """
import sys
import pergpu

def f(x):
    return x + 1

if __name__ == "__main__":
    reuse = sys.argv[2] == "reuse"
    with pergpu.Executor(lanes=1, out=sys.argv[1], name=sys.argv[2], reuse=reuse) as pool:
        print("first", pool.submit(f, 41).result(), flush=True)
        sys.stdin.readline()
        second = pool.submit(f, bytearray(3 << 20) if reuse else 42)
        print("second", type(second.exception()).__name__, flush=True)
"""
# Takes a folder's name away and puts one of this user's, that everybody may write to, in its place.
TAKE = """
import os, sys
os.rename(sys.argv[1], sys.argv[1] + ".away")
os.mkdir(sys.argv[1])
os.chmod(sys.argv[1], 0o2777)
"""
LEAD = """
import os, sys
target, link = sys.argv[1:]
os.makedirs(os.path.dirname(link), exist_ok=True)
os.chmod(os.path.dirname(link), 0o2777)
if os.path.lexists(link): os.rename(link, link + ".away")
os.symlink(target, link)
"""
HELD = """
import os, sys
found = []
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        try:
            with open(f"{folder}/{name}", "rb") as file:
                if sys.argv[2].encode() in file.read(): found.append(name)
        except OSError:
            pass
print(found)
"""


def program(lab, how):
    """A running one of the first user."""
    home = lab.home
    package = home.root + "/python"
    if not os.path.exists(package):
        shutil.copytree(PYTHON, package)  # the checkout may be for its owner alone
    path = home.file("calls.py", TWO_CALLS)
    env = {**home.env, "PYTHONPATH": package, "PERGPU_BIN": home.program, "API_TOKEN": SECRET}
    with starting:
        process = subprocess.Popen(
            [sys.executable, "-B", path, lab.shared, how], cwd=home.work, env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **home.user,
        )  # fmt: skip
        started.add(process.pid)
    home.started.append(process)
    return process


def test_the_environment_goes_into_no_folder_of_another_user(lab):
    for how in ("fresh", "reuse"):
        process = program(lab, how)
        line = process.stdout.readline()
        assert line == "first 42\n", line + process.stdout.read()
        lab.other_runs(TAKE, f"{lab.shared}/{how}/_calls")
        said, _ = process.communicate("\n", timeout=DEADLINE)
        assert "second " in said, said
        assert lab.other_runs(HELD, lab.shared, SECRET) == "[]\n", how
        assert not [name for name in os.listdir(f"{lab.shared}/{how}/_calls") if not name.endswith(".json")], how


def test_calls_are_led_to_no_private_file(lab):
    lab.fill_private(["www"], ["settings.json", "0"])
    before = lab.state_of_private()
    lab.other_runs(LEAD, lab.private + "/www", lab.shared + "/fresh/_calls")
    said, _ = program(lab, "fresh").communicate("\n", timeout=DEADLINE)
    assert "PermissionError" in said and "first 42" not in said, said
    assert lab.state_of_private() == before
