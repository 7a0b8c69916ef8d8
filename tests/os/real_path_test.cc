// Where a path leads (os/fs/real_path.h).
#include "os/fs/real_path.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"

namespace pergpu::os {
namespace {

/// a/b/c, links to each of them, and links to links.
class RealPathTest : public testing::Test {
 protected:
  RealPathTest() {
    EXPECT_TRUE(make_dirs(dir_ / "a/b/c", 0755));
    root_ = real_path(dir_.path());
    link("a", "la");
    link("a/b", "lb");
    link("../lb/c", "a/lc");
    link(root_ + "/la/b", "a/b/again");
  }
  void link(const std::string& to, const std::string& at) const {
    EXPECT_EQ(::symlink(to.c_str(), (dir_ / at).c_str()), 0);
  }
  TempDir dir_;
  std::string root_;
};

TEST_F(RealPathTest, FollowsLinksBeforeDots) {
  EXPECT_EQ(real_path(dir_ / "lb/.."), root_ + "/a");
  EXPECT_EQ(real_path(dir_ / "a/lc/./..//c/"), root_ + "/a/b/c");
  EXPECT_EQ(real_path(dir_ / "lb/again/again"), root_ + "/a/b");
}

TEST_F(RealPathTest, WhatIsNotThereFollowsAsItIsWritten) {
  EXPECT_EQ(real_path(dir_ / "lb/new/runs"), root_ + "/a/b/new/runs");
  EXPECT_EQ(real_path(dir_ / "lb/new/../runs/"), root_ + "/a/b/runs");
  EXPECT_EQ(folder_identity(dir_ / "lb/new/runs"), folder_identity(dir_ / "a/b/new//runs/"));
  EXPECT_NE(folder_identity(dir_ / "lb/new/runs"), folder_identity(dir_ / "la/new/runs"));
}

TEST_F(RealPathTest, AFolderThatIsMadeMeanwhileIsTheSame) {
  const std::string before = dir_ / "lb/runs";
  ASSERT_TRUE(make_dirs(dir_ / "a/b/runs", 0755));
  EXPECT_EQ(folder_identity(before), folder_identity(dir_ / "la/b/runs"));
}

TEST_F(RealPathTest, ACircleOfLinksIsNoFolder) {
  link("y", "x");
  link("x", "y");
  EXPECT_EQ(folder_identity(dir_ / "x/runs"), std::nullopt);
  EXPECT_EQ(real_path(dir_ / "x"), dir_ / "x");
}

TEST_F(RealPathTest, TheKnownOneIsFoundByAnotherSpelling) {
  const std::vector<std::string> known = {dir_ / "a/b/c", dir_ / "gone/x", dir_ / "lb"};
  EXPECT_EQ(same_folder(known, dir_ / "la/b"), dir_ / "lb");
  EXPECT_EQ(same_folder(known, dir_ / "a"), std::nullopt);
}

TEST_F(RealPathTest, AnotherMountOfItIsTheSame) {
  ASSERT_TRUE(make_dirs(dir_ / "mounted", 0755));
  if (::mount((dir_ / "a").c_str(), (dir_ / "mounted").c_str(), nullptr, MS_BIND, nullptr) < 0) {
    GTEST_SKIP() << "may not mount";
  }
  EXPECT_EQ(folder_identity(dir_ / "mounted/b/new"), folder_identity(dir_ / "lb/new"));
  EXPECT_NE(real_path(dir_ / "mounted/b"), real_path(dir_ / "lb"));
  ::umount((dir_ / "mounted").c_str());
}

/// Any walk through folders, links, `.` and `..` that ends in a/b/c is a/b/c.
RC_GTEST_FIXTURE_PROP(RealPathTest, EverySpellingLeadsToTheSame, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(0, 9);  // the kernel follows 40 links at most
  const auto steps = *rc::gen::container<std::vector<int>>(count, rc::gen::inRange(0, 6));
  std::string path = dir_.path();
  for (const int step : steps) {  // each leads from the root to the root
    const char* const rounds[] = {"/a/..",           "/./",     "/lb/../..", "//a/lc/../../..",
                                  "/lb/again/../..", "/la/../."};
    path += rounds[step];
  }
  const char* const ends[] = {"/a/b/c", "/lb/c", "/a/lc", "/la/b/again/c", "/a/../la/lc/"};
  path += ends[*rc::gen::inRange(0, 5)];
  RC_ASSERT(real_path(path) == root_ + "/a/b/c");
  RC_ASSERT(folder_identity(path) == folder_identity(dir_ / "a/b/c"));
}

}  // namespace
}  // namespace pergpu::os
