// Whether a path still leads to the folder that was noted (os/fs/folder_note.h).
#include "os/fs/folder_note.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "fixture.h"

namespace pergpu::os {
namespace {

struct FolderNote : ::testing::Test {
  TempDir dir;
  std::string root = dir / "root";
  std::string note = dir / "notes/a/1";

  void SetUp() override {
    ASSERT_TRUE(make_dirs(root, 0755));
    ASSERT_TRUE(note_root(note));
    if (!exists(note)) GTEST_SKIP() << "this file system makes up inodes";
  }
  Result<void> note_root(const std::string& at) const { return note_folder(held(root), at); }
  bool is_noted(const std::string& path) const { return is_noted_folder(held(path), note); }
  static HeldFolder held(const std::string& path) {
    Result<HeldFolder> folder = HeldFolder::open(path);
    EXPECT_TRUE(folder) << path;
    return *std::move(folder);
  }
  static void move(const std::string& from, const std::string& to) {
    ASSERT_EQ(::rename(from.c_str(), to.c_str()), 0) << from;
  }
};

TEST_F(FolderNote, AnotherFolderInItsPlaceIsNoticedUntilItIsBack) {
  EXPECT_TRUE(is_noted(root));
  move(root, dir / "away");
  ASSERT_TRUE(make_dirs(root, 0755));
  EXPECT_FALSE(is_noted(root));
  ASSERT_EQ(::rmdir(root.c_str()), 0);
  move(dir / "away", root);
  EXPECT_TRUE(is_noted(root));
}

TEST_F(FolderNote, IsTheSameByAnyName) {
  ASSERT_EQ(::symlink("root", (dir / "link").c_str()), 0);
  EXPECT_TRUE(is_noted(dir / "link"));
}

TEST_F(FolderNote, CanBeNotedAgain) {
  move(root, dir / "away");
  ASSERT_TRUE(make_dirs(root, 0755));
  ASSERT_TRUE(note_root(note));
  EXPECT_TRUE(is_noted(root));
  EXPECT_FALSE(is_noted(dir / "away"));
}

TEST_F(FolderNote, WhatIsNotNotedMayBeAnyFolder) {
  EXPECT_TRUE(is_noted_folder(held(root), dir / "notes/a/2"));
  ASSERT_TRUE(write_file_atomic(note, "no note", 0600, false));
  EXPECT_TRUE(is_noted(root));
  ASSERT_TRUE(write_file_atomic(note, "", 0600, false));
  EXPECT_TRUE(is_noted(root));
}

/// The numbers of devices are those of a boot.
TEST_F(FolderNote, OfAnotherBootOnlyTheInodeCounts) {
  struct stat st = {};
  ASSERT_EQ(::stat(root.c_str(), &st), 0);
  const std::string inode = std::to_string(st.st_ino);
  ASSERT_TRUE(write_file_atomic(note, inode + " 4000 4000 another-boot\n", 0600, false));
  EXPECT_TRUE(is_noted(root));
  ASSERT_TRUE(write_file_atomic(note, inode + "1 4000 4000 another-boot\n", 0600, false));
  EXPECT_FALSE(is_noted(root));
}

TEST_F(FolderNote, TheNotesOfAFolderThatIsGoneAreForgottenTogether) {
  ASSERT_TRUE(note_root(dir / "notes/a/2"));
  ASSERT_TRUE(note_root(dir / "notes/b/1"));
  ASSERT_TRUE(note_new_folder(held(root), note));
  EXPECT_EQ(*list_dir(dir / "notes/a"), std::vector<std::string>{"1"});
  EXPECT_TRUE(exists(dir / "notes/b/1"));
}

TEST_F(FolderNote, MakesNoHomeAgain) {
  EXPECT_FALSE(note_root(dir / "no/notes/a/1"));
  EXPECT_FALSE(exists(dir / "no"));
}

}  // namespace
}  // namespace pergpu::os
