"""Steps of a release: commands whose output goes to a log, and is shown when they fail."""
import os
import shutil
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
WORK = ROOT / "build/dist"  # everything that is made on the way
LOGS = ROOT / "build/logs"


class Failed(Exception):
    """A message for the person who makes a release."""


class Step:
    """with Step("libraries-x86_64") as step: step.run("make") — one line on the terminal, one log."""

    def __init__(self, name):
        self.name = name
        self.path = LOGS / f"release-{name}.log"

    def __enter__(self):
        LOGS.mkdir(parents=True, exist_ok=True)
        self.log = self.path.open("w")
        self.start = time.monotonic()
        print(f"  {self.name:<22} ", end="", flush=True)
        return self

    def __exit__(self, kind, error, trace):
        self.log.close()
        seconds = time.monotonic() - self.start
        if kind is None:
            print(f"ok      {seconds:4.0f} s")
        else:
            print(f"FAILED  {seconds:4.0f} s   {self.path.relative_to(ROOT)}", flush=True)

    def run(self, *command, cwd=None, env=None):
        """Runs a command with `env` added to the environment; raises Failed."""
        words = [str(word) for word in command]
        self.log.write(f"+ {' '.join(words)}\n")
        self.log.flush()
        done = subprocess.run(words, cwd=cwd or WORK, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
                              env={**os.environ, "LC_ALL": "C.UTF-8", **(env or {})})
        if done.returncode != 0:
            self.log.flush()
            last = "".join(self.path.read_text(errors="replace").splitlines(keepends=True)[-40:])
            raise Failed(f"{last}\n{words[0]} ended with {done.returncode}")


def output(*command, cwd=ROOT):
    """What a command prints; raises Failed."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def fresh(folder):
    """An empty folder of that name."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def write(path, text, mode=0o644):
    """Writes a file unless it has that text, so that nothing is built again for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    path.chmod(mode)
