"""tools/check-names finds names in comments that exist nowhere."""
import os
import subprocess

from pages import ROOT

HEADER = """// Opens with os/gone.h, job/job.h and tests/job/job_test.cc.
#pragma once
namespace pergpu {
/// Job::apply() and Job::vanished(), apply_all(), lost_helper() and LostClass; State::Held, State::Left.
class Job : Base {
 public:
  void apply();
};
class Base {
  enum class State { Held };
  void apply_all();  // std::vector, train.sh and 3/4 are no names of the tree; `inherited`: Job::apply_all
};
}  // namespace pergpu
"""


def check(root, **files):
    """What tools/check-names prints of a tree of these files; __ is a slash, the last _ a point."""
    for name, text in files.items():
        path = os.path.join(root, ".".join(name.replace("__", "/").rsplit("_", 1)))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    done = subprocess.run([ROOT + "/tools/check-names", root], stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout


def test_names_that_exist_pass(tmp_path):
    text = "// src/a.h, a.h: has act(), A::act, FirstOne, src/\nstruct A { void act(FirstOne b); };\n"
    code, printed = check(str(tmp_path), src__a_h=text)
    assert code == 0, printed


def test_names_of_files_classes_and_functions_that_do_not_exist_are_found(tmp_path):
    code, printed = check(str(tmp_path), src__job__job_h=HEADER, tests__job__x_cc="// nothing\n")
    assert code == 1
    found = {line.split(": ")[-1] for line in printed.splitlines() if "no such thing" in line}
    assert found == {"os/gone.h", "tests/job/job_test.cc", "Job::vanished", "lost_helper", "LostClass", "State::Left"}
    assert "src/job/job.h:4: no such thing: Job::vanished" in printed


def test_docstrings_are_comments_and_other_strings_are_code(tmp_path):
    code, printed = check(str(tmp_path), tools__a_py='"""Calls gone_away()."""\nx = "a # lost_word()"  # lost_word\n')
    assert code == 1
    assert printed.splitlines()[:-1] == ["tools/a.py:1: no such thing: gone_away"]


def test_tests_that_the_page_names_have_to_exist(tmp_path):
    page = "`Store.Holds`, `Store.Breaks`, `test_a.py::test_b`, `test_a.py::test_c`\n"
    code, printed = check(str(tmp_path), docs__architecture_md=page, tests__store__s_test_cc="TEST(Store, Holds) {}\n",
                          tests__e2e__test_a_py="def test_b(): pass\n")
    assert code == 1
    assert "Store.Breaks" in printed and "test_a.py::test_c" in printed
    assert "Store.Holds" not in printed and "test_a.py::test_b" not in printed


def test_a_listed_name_passes_and_a_needless_entry_is_found(tmp_path):
    names = {"tools__foreign-names_txt": "# names\nLinux: futex99 dup9\n"}
    code, printed = check(str(tmp_path), src__a_h="// futex99(), which Linux has\n", **names)
    assert code == 1
    assert printed.splitlines()[:-1] == ["tools/foreign-names.txt:2: no comment needs dup9"]
