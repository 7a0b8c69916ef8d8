"""tools/check-layers finds what is too large, and what is included or read where it may not be."""
import subprocess
import sys

import pytest
from pages import ROOT

sys.path.insert(0, ROOT + "/tools")
import cpp_parts  # noqa: E402

CODE = """// A file.
#define BROKEN(x) struct x {
namespace a::b {
struct Plain {
  int one = 1, two{2};
  std::map<int, std::pair<int, int>> three;
  std::function<void(int)> four = [](int) { return; };
  int (*five)(const char*) = nullptr;
  static constexpr int kNot = 3;
  enum class Kind { A, B } six = Kind::A;
  struct Inner {
    int seven;
  };
  using Other = int;
  friend bool operator<(const Plain& a, const Plain& b) { return a.one < b.one; }
};
template <typename T, typename = std::enable_if_t<(sizeof(T) > 1)>>
class Owner final : public Plain, private std::vector<T> {
 public:
  explicit Owner(int x) : Plain{1}, held_(x), more_{"{"} {
    if (x > '{') more_.clear();  // }
  }
  Owner(const Owner&) = delete;
  virtual ~Owner() = default;
  bool operator()(int x) const noexcept { return x < held_; }
  template <typename U>
  auto get(U u) -> decltype(u) {
    struct Local { int not_counted; };
    return u;
  }
  virtual int pure(std::array<int, 2> x = {1, 2}) const = 0;

 private:
  void hidden();
  static int count();
  int held_ = sizeof(int) < 4 ? 1'000 : 2;
  std::string more_;
};
enum class Color { Red };
const auto kTable = std::array{1, 2};
void free_one(int a,
              int b) {
  call(R"x(} " {)x");
}
}  // namespace a::b
int a::Outer::method() const { return 0; }
"""


def test_classes_and_functions_are_read_without_a_compiler():
    classes, functions = cpp_parts.read(CODE)
    found = {one.name: one for one in classes}
    assert list(found) == ["Plain", "Plain::Kind", "Plain::Inner", "Owner", "Color"]
    assert (found["Plain"].fields, found["Plain"].methods) == (6, [])
    owner = found["Owner"]
    assert owner.methods == ["Owner", "operator()", "get", "pure", "hidden", "count"]
    assert (owner.public, owner.fields, owner.line) == (owner.methods[:4], 2, 17)
    assert {"Plain", "held_", "kTable"} & owner.words == {"held_", "Plain"} and owner.bases == ["Plain"]
    assert [(one.name, one.lines) for one in functions] == [
        ("Plain::operator<", 1), ("Owner::Owner", 3), ("Owner::operator()", 1), ("Owner::get", 5), ("free_one", 4),
        ("a::Outer::method", 1)]


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


def test_what_reaches_the_goals_needs_no_line(tree):
    assert check(tree, fields=14, lines=80) == (0, "1 files keep the rules\n")


def test_a_figure_above_its_goal_fails(tree):
    code, printed = check(tree, fields=15, lines=81)
    assert code == 1
    assert printed == ("src/os/a.cc:2: Whole has 15 fields, at most 14: split it\n"
                       "src/os/a.cc:19: act has 81 lines, at most 80: split it\n")


def test_a_figure_with_a_line_passes_and_may_not_rise(tree):
    limits = "20 fields in a.cc Whole\n90 lines in a.cc act\n"
    assert check(tree, fields=20, lines=90, limits=limits)[0] == 0
    code, printed = check(tree, fields=21, lines=90)
    assert code == 1 and "Whole has 21 fields, at most 20" in printed


def test_a_figure_that_fell_has_to_be_written_down(tree):
    limits = "20 fields in a.cc Whole\n90 lines in a.cc act\n88 lines in gone.cc act\n"
    code, printed = check(tree, fields=18, lines=70, limits=limits)
    assert code == 1
    assert "tools/limits.txt:2: a.cc Whole has 18 fields, fewer than 20" in printed
    assert "gone.cc act has 0 lines" in printed
    assert check(tree, "--lower", fields=18, lines=70)[0] == 0
    assert (tree / "tools/limits.txt").read_text() == "# of src/\n18 fields in a.cc Whole\n"
    assert check(tree, fields=18, lines=70)[0] == 0


def test_nothing_rises_by_lowering(tree):
    code, printed = check(tree, "--lower", fields=21, limits="20 fields in a.cc Whole\n")
    assert code == 1 and "at most 20" in printed
    assert "20 fields in a.cc Whole\n" in (tree / "tools/limits.txt").read_text()


def test_files_in_a_folder_and_long_functions_are_counted(tree):
    for number in range(60):
        long = "  call();\n" * 60 if number < 13 else ""
        (tree / f"src/os/b{number}.cc").write_text(f"// A file.\nvoid act() {{\n{long}}}\n")
    code, printed = check(tree)
    assert code == 1
    assert printed == ("src/os:1: src/os has 61 files, at most 60: split it\n"
                       "src:1: src has 13 functions of more than 60 lines, at most 12: split it\n")


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
    assert printed == ('src/share/a.cc:2: src/share may not include "share/c/b.h" (allowed: share, os, os/fs, os/process, os/ipc)\n'
                       "src/share/d/e.cc:1: src/share/d is not in the table of layers (tools/check-layers)\n")
