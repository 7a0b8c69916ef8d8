"""`pip install .`: the programs, the package `pergpu` and its compiled part, for one interpreter."""
import os
import subprocess
import sys

import pytest

import harness
from harness import read

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, **options)
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """An environment of its own with the wheel of the programs under test."""
    prefix = str(tmp_path_factory.mktemp("wheel") / "venv")
    run(sys.executable, "-m", "venv", prefix)
    pip = [prefix + "/bin/pip", "--disable-pip-version-check", "--no-input"]
    index = subprocess.run([*pip, "download", "-q", "--no-deps", "-d", prefix, "scikit-build-core"], capture_output=True, text=True)
    if index.returncode != 0:
        pytest.skip("no package index to fetch scikit-build-core from: " + index.stderr[-300:])
    run(*pip, "install", "-q", ROOT, "--config-settings=cmake.define.PERGPU_PROGRAMS=" + os.path.dirname(harness.PERGPU))
    return prefix


@pytest.fixture
def clean(home):
    """Without the package and the programs of the repository."""
    return {name: value for name, value in home.env.items() if name not in ("PYTHONPATH", "PERGPU_BIN")}


def test_the_programs_and_the_package_are_of_one_version(prefix, clean):
    by_name = run(prefix + "/bin/pergpu", "--version", env=clean)
    assert run(prefix + "/bin/python", "-m", "pergpu", "--version", env=clean) == by_name
    told = run(prefix + "/bin/python", "-c", "import pergpu; print('pergpu', pergpu.__version__)", env=clean)
    assert told.strip() == by_name.partition(" (")[0]  # behind it are commit and target
    shown = run(prefix + "/bin/pip", "show", "-f", "pergpu")
    assert told.replace("pergpu ", "Version: ") in shown
    assert " hydra_plugins/pergpu_launcher/launcher.py\n" in shown and "hydra_plugins/__init__.py" not in shown
    points = "import importlib.metadata as m; print([(p.group, p.name) for p in m.distribution('pergpu').entry_points])"
    assert "('submitit', 'executor'), ('submitit', 'job_environment')" in run(prefix + "/bin/python", "-c", points, env=clean)
    assert os.path.exists(prefix + "/share/man/man1/pergpu.1") and os.path.exists(prefix + "/share/pergpu/schema/ps.json")


def test_the_wheel_is_for_every_python_from_3_9_on_and_brings_the_compiled_part(prefix, clean):
    tags = "import importlib.metadata as m; print(m.distribution('pergpu').read_text('WHEEL'))"
    assert "\nTag: cp39-abi3-linux_" in run(prefix + "/bin/python", "-c", tags, env=clean)
    if not os.path.exists(os.path.join(os.path.dirname(harness.PERGPU), "_share.abi3.so")):
        pytest.skip("the build under test has no pergpu._share: it found no headers of Python")
    text = """
import pergpu._share as native
made = native.Array(native.Memory.create("wheel", 8).map("cow"), 0, (2,), "float32")
print(native.__file__, memoryview(made).tolist(), native.__version__)
"""
    path, _, rest = run(prefix + "/bin/python", "-c", text, env={**clean, "PATH": "/nowhere"}).partition(" ")
    assert path.startswith(prefix) and path.endswith("/site-packages/pergpu/_share.abi3.so")
    assert rest.split()[:2] == ["[0.0,", "0.0]"] and rest.split()[2] in run(prefix + "/bin/pergpu", "--version", env=clean)


def test_a_job_runs_with_what_was_installed(home, prefix):
    home.program = prefix + "/bin/pergpu"
    home.file("train.py", "import pergpu\npergpu.report(i=pergpu.config().i)\nprint(pergpu.__file__)\n")
    home.run("run", "--lanes", "1", "-g", "i=1,2", "--name", "s", "--", prefix + "/bin/python", "train.py")
    for job in home.ps("s").values():
        assert read(job["log"]).startswith(prefix) and job["state"] == "done"
        assert read(job["out"] + "/metrics.jsonl") == '{"i": %d}\n' % (job["index"] + 1)


def test_python_finds_the_program_beside_it_and_else_by_path(prefix, clean):
    text = "from pergpu._program import program; print(program())"
    assert run(prefix + "/bin/python", "-c", text, env=clean).strip() == prefix + "/bin/pergpu"
    chosen = {**clean, "PERGPU_BIN": "/opt/other/pergpu"}
    assert run(prefix + "/bin/python", "-c", text, env=chosen).strip() == "/opt/other/pergpu"
    beside = {**clean, "PYTHONPATH": ROOT + "/python", "PATH": prefix + "/bin:/usr/bin:/bin"}
    assert run(sys.executable, "-c", text, env=beside).strip() == prefix + "/bin/pergpu"
    nowhere = {**beside, "PATH": "/nowhere"}
    done = subprocess.run([sys.executable, "-c", text], env=nowhere, capture_output=True, text=True)
    assert done.returncode == 1 and "neither in this package's installation nor in PATH" in done.stderr
