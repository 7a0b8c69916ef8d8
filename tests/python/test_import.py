"""What an import costs, and what it does not do."""
import json
import pickle
import subprocess
import sys


def imported():
    text = """
import json, os, sys, threading
before = set(sys.modules)
import pergpu
listed = [name for name in dir(pergpu) if not name.startswith("_")]
print(json.dumps([sorted(set(sys.modules) - before), threading.active_count(), os.listdir("/proc/self/task"), listed]))
"""
    return json.loads(subprocess.run([sys.executable, "-c", text], capture_output=True, check=True, text=True).stdout)


def test_an_import_starts_nothing_and_brings_no_large_module():
    modules, threads, tasks, _ = imported()
    assert threads == 1 and len(tasks) == 1
    heavy = {"numpy", "torch", "asyncio", "multiprocessing", "concurrent", "subprocess", "pickle", "tqdm"}
    assert not heavy & {name.partition(".")[0] for name in modules}, modules


def test_all_that_is_named_is_there_and_told_of():
    import pergpu

    assert set(imported()[3]) >= set(pergpu.__all__) >= {"Sweep", "config", "report", "results"}
    for name in pergpu.__all__:
        assert getattr(pergpu, name).__doc__, name
    for error in (pergpu.NotAJob("x"), pergpu.CommandFailed("run", 2, "words")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error)) and type(error).__module__ == "pergpu"
    names = {}
    exec("from pergpu import *", names)
    assert set(names) >= set(pergpu.__all__)


def test_its_version_is_that_of_the_programs():
    import os
    import re

    import pergpu

    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    with open(root + "/CMakeLists.txt", encoding="utf-8") as file:
        (version,) = re.findall(r"project\(pergpu VERSION ([0-9.]+)", file.read())
    assert pergpu.__version__ == version
    for path, begin in (
        ("python/hydra_plugins/pergpu_launcher/__init__.py", '__version__ = "'),
        ("man/pergpu.1", '"pergpu '),
        ("include/pergpu_share.h", '// Of pergpu, "'),
        ("CHANGELOG.md", "# Changelog\n\n## "),
    ):
        with open(f"{root}/{path}", encoding="utf-8") as file:
            assert begin + version in file.read(), path


def test_without_its_compiled_part_the_rest_works_and_says_what_to_do(tmp_path):
    import os

    text = """
import pergpu
pergpu.report(loss=1)
try:
    import pergpu._share
    print(pergpu._share.__file__)
except ImportError as error:
    print(error.name, error)
"""
    environment = {**os.environ, "PERGPU_BIN": str(tmp_path / "bin" / "pergpu")}

    def told():
        return subprocess.run([sys.executable, "-c", text], capture_output=True, check=True, text=True, env=environment).stdout

    places = [tmp_path / "bin" / "_share.abi3.so", tmp_path / "lib" / "pergpu" / "_share.abi3.so"]
    assert told().startswith("pergpu._share the compiled part of pergpu is missing")
    assert "python3-dev" in told() and all(str(place) in told() for place in places)
    for place in places:
        place.parent.mkdir(parents=True)
        place.write_text("not a library")
        assert str(place) in told() and "is missing" not in told()
        place.unlink()
