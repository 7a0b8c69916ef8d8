"""Installing a release in bare roots of Debian, which have Python's venv and no compiler, as a user who isn't root: no
systemd, no /run/user, no cgroups, no package index.  The roots are made once, in build/dist/roots."""
import os
import platform
import re
import shutil
import subprocess

import pytest
from conftest import ARCHIVES, DIST, ROOT, VERSION, WHEELS, run

ROOTS = ROOT / "build/dist/roots"
SYSTEMS = {"bullseye": "3.9", "bookworm": "3.11", "trixie": "3.13"}  # Debian 11 to 13, with their Python
# The last three are what pytest needs on earlier Pythons than the one that fetches it.
PACKAGES = ["cloudpickle", "numpy", "pytest", "exceptiongroup", "tomli", "typing_extensions"]
USER = "1234"
# What is mounted is seen in there alone, and what runs ends with its first process.
NAMESPACES = ["unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child"]
ENTER = """
cd "$1"; shift
mount -t proc proc proc
for place in dev/shm tmp home; do mount -t tmpfs -o mode=1777 none $place; done
mkdir -p home/user files; chown USER home/user
mount --bind "$1" files; shift
exec chroot . setpriv --reuid=USER --regid=USER --clear-groups env -i HOME=/home/user PATH=/usr/bin:/bin LANG=C.UTF-8 \\
  sh -euc 'cd; eval "$1"' - "$1"
""".replace("USER", USER)

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64" or os.getuid() != 0 or not shutil.which("debootstrap"),
                                reason="for root on x86-64 with debootstrap")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with what is installed, and what is tried then."""
    folder = tmp_path_factory.mktemp("files")
    for name in (WHEELS["x86_64"], ARCHIVES["x86_64"]):
        shutil.copy(DIST / name, folder)
    shutil.copy(ROOT / "tests/release/in_a_system.py", folder)
    shutil.copytree(ROOT / "tests/python", folder / "tests/python", ignore=shutil.ignore_patterns("__pycache__"))
    venv = tmp_path_factory.mktemp("pip") / "venv"
    run("/usr/bin/python3", "-m", "venv", venv)
    for python in SYSTEMS.values():
        pip = [venv / "bin/pip", "download", "-q", "--disable-pip-version-check", "--only-binary=:all:", "--python-version", python,
               "-d", folder / python, *PACKAGES]
        got = subprocess.run(pip, capture_output=True, text=True)
        if got.returncode != 0:
            pytest.skip("no package index to fetch what tests need from: " + got.stderr[-300:])
    folder.chmod(0o755)
    return folder


@pytest.fixture(params=SYSTEMS)
def system(request, files):
    """system(SCRIPT): what a shell of that user prints."""
    if subprocess.run([*NAMESPACES, "true"], capture_output=True).returncode != 0:
        pytest.skip("no namespaces here")
    root = ROOTS / request.param
    if not root.exists():
        new = ROOTS / f"{request.param}.new"
        shutil.rmtree(new, ignore_errors=True)
        new.parent.mkdir(parents=True, exist_ok=True)
        got = subprocess.run(["debootstrap", "--variant=minbase", "--include=python3-venv", request.param, new], capture_output=True, text=True)
        if got.returncode != 0:
            pytest.skip("no archive of Debian: " + got.stdout[-300:])
        new.rename(root)

    def enter(script):
        done = subprocess.run([*NAMESPACES, "sh", "-euc", ENTER, "-", root, files, script], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800)
        assert done.returncode == 0, done.stdout
        return done.stdout

    enter.python = SYSTEMS[request.param]
    return enter


def test_a_wheel_works(system):
    told = system(f"""
        python3 -m venv venv
        begin=$(date +%s)
        venv/bin/pip install -q --no-index --find-links /files/{system.python} --disable-pip-version-check /files/{WHEELS["x86_64"]}
        echo installed in $(($(date +%s) - begin)) s
        venv/bin/python --version
        venv/bin/pergpu --version
        venv/bin/python /files/in_a_system.py venv/bin/pergpu
    """)
    assert f"Python {system.python}." in told and f"pergpu {VERSION} (" in told
    assert int(told.partition("installed in ")[2].split()[0]) < 10, told
    assert told.endswith("doctor ok\nsweep ok\npage ok\ncalls ok\nchannels ok\n")


def test_an_archive_works(system):
    told = system(f"""
        tar -xf /files/{ARCHIVES["x86_64"]}
        pergpu-*/install.sh
        rm -r pergpu-*
        python3 /files/in_a_system.py .local/bin/pergpu without-the-package
        .local/share/pergpu/install.sh --uninstall
        find .local -type f -path '*pergpu*' ! -path '.local/state/*'
    """)
    assert "doctor ok\nsweep ok\npage ok\n" in told
    assert told.endswith("results in the folders of your sweeps.\n"), told


def test_the_package_passes_its_tests_from_the_wheel(system):
    # Two look at files of the repository.
    told = system(f"""
        python3 -m venv venv
        venv/bin/pip install -q --no-index --find-links /files/{system.python} /files/{WHEELS["x86_64"]} pytest numpy
        cp -r /files/tests .
        cd tests/python
        export PERGPU_BIN=$HOME/venv/bin/pergpu
        for test in test_*.py; do
          echo $test
          $HOME/venv/bin/python -m pytest -q --tb=short -p no:cacheprovider $test \\
            -k "not its_version_is_that_of_the_programs and not without_its_compiled_part" || [ $? = 5 ]
        done
    """)
    # None was skipped for want of the compiled part or of numpy.
    assert re.search(r"^test_share_channel\.py\n.*\n[0-9]+ passed in", told, re.M), told
    assert re.search(r"^test_share_images\.py\n.*\n[0-9]+ passed in", told, re.M), told
