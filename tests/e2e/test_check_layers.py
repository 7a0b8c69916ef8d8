"""tools/check-layers finds what is included, read or named where it may not be."""
import subprocess

import pytest
from pages import ROOT


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/CMakeLists.txt").write_text("")
    (tmp_path / "src/os").mkdir(parents=True)
    (tmp_path / "tools").mkdir()
    return tmp_path


def check(tree, *options, fields=3, lines=3, limits=None):
    """What tools/check-layers prints of a tree with one class and one function."""
    body = "  call();\n" * (lines - 2)
    text = f"// A file.\nstruct Whole {{\n{'  int x;'.join([''] + [chr(10)] * fields)}}};\nvoid act() {{\n{body}}}\n"
    (tree / "src/os/a.cc").write_text(text)
    if limits is not None:
        (tree / "tools/limits.txt").write_text("# of src/\n" + limits)
    command = [ROOT + "/tools/check-layers", str(tree), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout


def test_a_variable_for_tests_is_read_where_its_table_says(tree):
    row = 'constexpr TestHook k{0} {{"PERGPU_{1}",  "what", "os/{2}.cc"}};\n'
    rows = row.format("Dev", "DEV", "dev") + row.format("Sys", "SYS", "sys") + row.format("Old", "OLD", "dev")
    (tree / "src/os/test_hooks.h").write_text("// A file.\n" + rows)
    (tree / "src/os/dev.cc").write_text("// A file.\nauto a = test_hook::kDev.value();\n")
    (tree / "src/os/sys.cc").write_text('// A file.\nauto a = read(os::test_hook::kSys, getenv("PERGPU_DEV"));\n')
    code, printed = check(tree)
    assert code == 1
    assert printed == ("src/os/sys.cc:2: PERGPU_DEV is read as os::test_hook::kDev\n"
                       "src/os/test_hooks.h:1: os/dev.cc doesn't read PERGPU_OLD\n")
    (tree / "src/os/sys.cc").write_text("// A file.\nauto a = test_hook::kSys + test_hook::kOld + pretends_none;\n")
    code, printed = check(tree)
    assert "src/os/sys.cc:2: src/os/test_hooks.h says that os/dev.cc reads PERGPU_OLD" in printed
    assert "src/os/sys.cc:2: what a process pretends" in printed


def test_nested_folders_have_rules_of_their_own(tree):
    for name, header in {"share/a.cc": "share/c/b.h", "share/c/b.cc": "share/a.h", "share/d/e.cc": "os/a.h"}.items():
        (tree / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / "src" / name).write_text(f'// A file.\n#include "{header}"\n')
    code, printed = check(tree)
    assert code == 1
    assert printed == ('src/share/a.cc:2: src/share may not include "share/c/b.h" (allowed: share, os)\n'
                       "src/share/d/e.cc:1: src/share/d is not in the table of layers (tools/check-layers)\n")
