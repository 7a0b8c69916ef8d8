"""kill_at strikes before the n-th call, not after it.

A shell of the name pergpu plays the coordinator, its script makes a file: up to the kill right
before the call that opens it the file is not there, from the next one on it is.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

OPENAT = {"x86_64": 257, "aarch64": 56}[os.uname().machine]


def struck(kill_at, folder, number):
    """(kill_at's words, whether the script's file was made)."""
    made = folder + "/made"
    if os.path.exists(made):
        os.unlink(made)
    command = [kill_at, "coordinator", str(number), folder + "/pergpu", "coordinator"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip(), os.path.exists(made)


def main():
    kill_at = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy("/bin/sh", folder + "/pergpu")
        with open(folder + "/coordinator", "w") as f:
            f.write(":\n>made\n:\n")
        said, made = struck(kill_at, folder, 0)
        calls = int(re.fullmatch(r"ended after (\d+) calls", said)[1])
        assert made and calls > 10, said
        last_without = None
        for number in range(1, calls + 1):
            said, made = struck(kill_at, folder, number)
            match = re.fullmatch(r"killed \d+ before call (\d+) \((\d+)\)", said)
            assert match and int(match[1]) == number, said
            if not made:
                last_without = number, int(match[2])
        assert last_without and last_without[1] == OPENAT, last_without
        assert last_without[0] < calls


if __name__ == "__main__":
    main()
