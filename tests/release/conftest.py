"""What tools/release made: PERGPU_DIST, or dist/."""
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
DIST = Path(os.environ.get("PERGPU_DIST", ROOT / "dist"))
VERSION = re.search(r"project\(pergpu VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
WHEELS = {arch: f"pergpu-{VERSION}-cp39-abi3-manylinux_2_17_{arch}.whl" for arch in ("x86_64", "aarch64")}
ARCHIVES = {arch: f"pergpu-{VERSION}-linux-{arch}.tar.gz" for arch in ("x86_64", "aarch64")}
SDIST = f"pergpu-{VERSION}.tar.gz"


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=280, **options)
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def unpack(path, folder):
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
    else:
        with tarfile.open(path) as archive:
            archive.extractall(folder)
    return folder


class Clean:
    """A user with a home of their own, and nothing of pergpu in the environment."""

    def __init__(self, root):
        self.home = root
        # Paths of sockets are short.
        self.env = {"HOME": str(root), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PERGPU_HOME": str(root / "p")}
        self.pergpu = None

    def run(self, *command, **options):
        return run(*command, cwd=self.home, env=self.env, **options)

    def sweep(self, pergpu, jobs):
        """Runs that many jobs; each leaves its number."""
        self.pergpu = pergpu
        self.run(pergpu, "run", "--lanes", "2", "--name", "s", "-g", f"i=1..{jobs}", "--", "sh", "-c", 'echo $1 >"$PERGPU_OUT/n"', "-", "{i}")
        found = sorted(int(path.read_text()) for path in self.home.glob("runs/s/**/n"))
        assert found == list(range(1, jobs + 1)), found

    def stop(self):
        if self.pergpu and self.pergpu.exists():
            subprocess.run([str(self.pergpu), "coordinator", "stop", "--kill"], env=self.env, capture_output=True, timeout=60)


@pytest.fixture
def user():
    root = Path(tempfile.mkdtemp(prefix="pr", dir="/tmp"))
    clean = Clean(root)
    yield clean
    clean.stop()
    shutil.rmtree(root)


@pytest.fixture(scope="session", autouse=True)
def made():
    if not DIST.is_dir():
        pytest.skip(f"no {DIST}: tools/release makes it")


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory):
    """unpacked(NAME): the folder with what a file of the release has in it."""
    folders = {}

    def get(name):
        if name not in folders:
            folders[name] = unpack(DIST / name, tmp_path_factory.mktemp(name))
        return folders[name]

    return get
