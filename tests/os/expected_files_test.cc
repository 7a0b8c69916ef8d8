// Files that are expected to be there, by path and by pattern.
#include "os/fs/expected_files.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace pergpu::os {
namespace {

class ExpectedFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "expected-XXXXXX";
    root_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& name, const std::string& text = "x") {
    const std::filesystem::path path = root_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::string why(const std::string& pattern) { return why_no_match(root_ + "/" + pattern, {}); }

  std::string root_;
};

TEST_F(ExpectedFiles, OneMatchThatIsNotEmptySuffices) {
  write("epoch=1.ckpt", "");
  EXPECT_EQ(why("*.ckpt"), "matches only empty files");
  write("epoch=2.ckpt");
  EXPECT_EQ(why("*.ckpt"), "");
  EXPECT_EQ(why("epoch=[2-9].ckpt"), "");
  EXPECT_EQ(why("epoch=?.ckpt"), "");
  EXPECT_EQ(why("epoch=[3-9].ckpt"), "matches no file");
  EXPECT_EQ(why("*.pt"), "matches no file");
  EXPECT_EQ(why("none/*.pt"), "matches no file");
}

TEST_F(ExpectedFiles, FoldersMayBeWildAndOfAnyDepth) {
  write("a/b/c/model.pt");
  EXPECT_EQ(why("*/b/*/model.pt"), "");
  EXPECT_EQ(why("**/model.pt"), "");
  EXPECT_EQ(why("**/b/**/model.pt"), "");
  EXPECT_EQ(why("a/**"), "");
  EXPECT_EQ(why("*/model.pt"), "matches no file");
}

TEST_F(ExpectedFiles, ASlashAtTheEndAsksForAFolder) {
  write("x.ckpt");
  EXPECT_EQ(why_not_there(root_ + "/x.ckpt/", {}), "is not a folder");
  EXPECT_EQ(why("x.ckpt/"), "matches only files, but the trailing `/` requires a folder");
  EXPECT_EQ(why("*.ckpt/"), "matches only files, but the trailing `/` requires a folder");
  EXPECT_TRUE(is_known_missing(why("*.ckpt/")));
  write("y.ckpt/shard");
  EXPECT_EQ(why("*.ckpt/"), "");
  EXPECT_EQ(why_not_there(root_ + "/y.ckpt/", {}), "");
}

TEST_F(ExpectedFiles, LinksInACircleEnd) {
  write("a/b/model.pt");
  std::filesystem::create_directory_symlink(root_ + "/a", root_ + "/a/b/up");
  EXPECT_EQ(why("**/none.pt"), "matches no file");
}

TEST_F(ExpectedFiles, NamesThatBeginWithADotAreMatchedByADotOnly) {
  write(".hidden.pt");
  EXPECT_EQ(why("*.pt"), "matches no file");
  EXPECT_EQ(why(".*.pt"), "");
}

TEST_F(ExpectedFiles, ANameMayHoldTheSigns) {
  write("a[1]*.pt");
  EXPECT_EQ(why("a[[]1][*].pt"), "");
  EXPECT_EQ(why("a[1]*.pt"), "") << "a file of that very name";
  EXPECT_EQ(why_no_match(escape_pattern(root_ + "/a[1]*.pt"), {}), "");
  write("b1x.pt");
  EXPECT_EQ(why_no_match(escape_pattern(root_ + "/b[1]*.pt"), {}), "matches no file");
}

TEST_F(ExpectedFiles, WhatCannotBeLookedAtIsNotKnownToBeMissing) {
  std::filesystem::create_symlink(root_ + "/circle", root_ + "/circle");
  EXPECT_FALSE(is_known_missing(why_not_there(root_ + "/circle", {})));
  EXPECT_TRUE(is_known_missing(why_not_there(root_ + "/none", {})));
  EXPECT_TRUE(is_known_missing(why("*.none")));
  EXPECT_FALSE(is_known_missing(""));
}

}  // namespace
}  // namespace pergpu::os
