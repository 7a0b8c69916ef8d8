// Whether a path still leads to the folder that was noted (os/folder_note.h).
#include "os/folder_note.h"

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
    ASSERT_TRUE(note_folder(root, note));
    if (!exists(note)) GTEST_SKIP() << "this file system makes up inodes";
  }
  static void move(const std::string& from, const std::string& to) {
    ASSERT_EQ(::rename(from.c_str(), to.c_str()), 0) << from;
  }
};

TEST_F(FolderNote, AnotherFolderInItsPlaceIsNoticedUntilItIsBack) {
  EXPECT_TRUE(is_noted_folder(root, note));
  move(root, dir / "away");
  EXPECT_TRUE(is_noted_folder(root, note)) << "nothing is there";
  ASSERT_TRUE(make_dirs(root, 0755));
  EXPECT_FALSE(is_noted_folder(root, note));
  ASSERT_EQ(::rmdir(root.c_str()), 0);
  move(dir / "away", root);
  EXPECT_TRUE(is_noted_folder(root, note));
}

TEST_F(FolderNote, IsTheSameByAnyName) {
  ASSERT_EQ(::symlink("root", (dir / "link").c_str()), 0);
  EXPECT_TRUE(is_noted_folder(dir / "link", note));
}

TEST_F(FolderNote, CanBeNotedAgain) {
  move(root, dir / "away");
  ASSERT_TRUE(make_dirs(root, 0755));
  ASSERT_TRUE(note_folder(root, note));
  EXPECT_TRUE(is_noted_folder(root, note));
  EXPECT_FALSE(is_noted_folder(dir / "away", note));
}

TEST_F(FolderNote, WhatIsNotNotedMayBeAnyFolder) {
  EXPECT_TRUE(is_noted_folder(root, dir / "notes/a/2"));
  ASSERT_TRUE(write_file_atomic(note, "no note", 0600, false));
  EXPECT_TRUE(is_noted_folder(root, note));
  ASSERT_TRUE(write_file_atomic(note, "", 0600, false));
  EXPECT_TRUE(is_noted_folder(root, note));
}

/// The numbers of devices are those of a boot.
TEST_F(FolderNote, OfAnotherBootOnlyTheInodeCounts) {
  struct stat st = {};
  ASSERT_EQ(::stat(root.c_str(), &st), 0);
  const std::string inode = std::to_string(st.st_ino);
  ASSERT_TRUE(write_file_atomic(note, inode + " 4000 4000 another-boot\n", 0600, false));
  EXPECT_TRUE(is_noted_folder(root, note));
  ASSERT_TRUE(write_file_atomic(note, inode + "1 4000 4000 another-boot\n", 0600, false));
  EXPECT_FALSE(is_noted_folder(root, note));
}

TEST_F(FolderNote, AllNotesOfOneFolderAreForgottenTogether) {
  ASSERT_TRUE(note_folder(root, dir / "notes/a/2"));
  ASSERT_TRUE(note_folder(root, dir / "notes/b/1"));
  forget_notes(note);
  EXPECT_EQ(*list_dir(dir / "notes/a"), std::vector<std::string>());
  EXPECT_TRUE(exists(dir / "notes/b/1"));
}

TEST_F(FolderNote, MakesNoHomeAgain) {
  EXPECT_FALSE(note_folder(root, dir / "no/notes/a/1"));
  EXPECT_FALSE(exists(dir / "no"));
}

}  // namespace
}  // namespace pergpu::os
