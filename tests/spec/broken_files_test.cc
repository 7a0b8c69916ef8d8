// Every file of tests/data/broken is refused with exactly the diagnostics of its neighbour
// NAME.expected (UPDATE_GOLDEN=1 rewrites those: read the difference before committing it).
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "spec/schema/load.h"
#include "spec/tree/diagnostics.h"

namespace pergpu {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(PERGPU_TEST_DATA) / "broken";

/// Rows for other files (bad_csv.rows.csv) are no sweep files themselves.
bool is_sweep_file(const fs::path& path) {
  std::string name = path.filename().string();
  std::string extension = path.extension().string();
  bool rows = name.find(".rows.") != std::string::npos || name.rfind("rows.", 0) == 0;
  return !rows && (extension == ".toml" || extension == ".yaml" || extension == ".json" ||
                   extension == ".ini");
}

std::vector<std::string> broken_files() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolder))
    if (is_sweep_file(entry.path())) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class BrokenFile : public testing::TestWithParam<std::string> {
 protected:
  // Paths in the expected texts are relative to the folder.
  void SetUp() override {
    before_ = fs::current_path();
    fs::current_path(kFolder);
  }
  void TearDown() override { fs::current_path(before_); }

 private:
  fs::path before_;
};

TEST_P(BrokenFile, IsRefusedWithItsExpectedDiagnostics) {
  ParsedSweep parsed = load_sweep(GetParam());
  EXPECT_FALSE(parsed.sweep.has_value());
  const auto is_error = [](const Diagnostic& d) {
    return d.severity == Diagnostic::Severity::Error;
  };
  EXPECT_TRUE(std::ranges::any_of(parsed.diagnostics, is_error));
  std::string text = to_text(parsed.diagnostics);
  fs::path expected = kFolder / (GetParam() + ".expected");
  if (std::getenv("UPDATE_GOLDEN") != nullptr) {
    std::ofstream(expected, std::ios::binary) << text;
    return;
  }
  EXPECT_EQ(text, read_all(expected));
}

INSTANTIATE_TEST_SUITE_P(All, BrokenFile, testing::ValuesIn(broken_files()),
                         [](const testing::TestParamInfo<std::string>& param) {
                           std::string name = param.param;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](char c) {
                                 return std::isalnum(static_cast<unsigned char>(c)) == 0;
                               },
                               '_');
                           return name;
                         });

TEST(BrokenFiles, AreAtLeastSixty) { EXPECT_GE(broken_files().size(), 60U); }

}  // namespace
}  // namespace pergpu
