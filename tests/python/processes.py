"""Other processes of Python, which do what they are told and may be killed."""
import json
import os
import subprocess
import sys
import textwrap

from conftest import PYTHON


class Other:
    """Runs `code`, in which say(value) tells the test something and hear() waits for the test."""

    def __init__(self, code, *arguments, fds=(), limit=None, **environment):
        begin = """
            import json, os, sys
            def say(value=None): print(json.dumps(value), flush=True)
            def hear(): return sys.stdin.readline()
            from pergpu import share
        """
        command = [sys.executable, "-c", textwrap.dedent(begin) + textwrap.dedent(code), *map(str, arguments)]
        if limit:  # of descriptors
            command = ["sh", "-c", f'ulimit -n {limit} && exec "$@"', "sh", *command]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=fds,
            env={**os.environ, "PYTHONPATH": PYTHON, **environment},
        )
        self.pid = self._process.pid

    def says(self):
        line = self._process.stdout.readline()
        assert line, f"it ended with {self._process.wait()}"
        return json.loads(line)

    def goes_on(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def send(self, number):
        self._process.send_signal(number)

    def ends(self):
        """Its exit status."""
        self._process.stdin.close()
        return self._process.wait(60)

    def is_asleep(self):
        """It waits for something, and not for the processor."""
        with open(f"/proc/{self.pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"S"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
