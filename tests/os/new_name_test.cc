// A whole file gets a name that nobody has, on its own file system and on another one.
#include "os/fs/new_name.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "fixture.h"
#include "os/kernel.h"
#include "os/test_hooks.h"

namespace pergpu::os {
namespace {

std::string content(const std::string& path) {
  const Result<std::string> read = read_file(path, 16u << 20);
  return read ? *read : read.error().message;
}

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

/// A folder beside `dir` and, where the machine has one, a folder on another file system.
std::vector<std::string> folders_for(const TempDir& dir) {
  std::vector<std::string> folders = {dir / "beside"};
  EXPECT_TRUE(make_dirs(folders[0], 0700));
  std::string other = "/dev/shm/pergpu-os-XXXXXX";
  struct stat here {};
  struct stat there {};
  if (::mkdtemp(other.data()) == nullptr) return folders;
  EXPECT_EQ(::stat(dir.path().c_str(), &here), 0);
  EXPECT_EQ(::stat(other.c_str(), &there), 0);
  if (here.st_dev != there.st_dev) folders.push_back(other);
  return folders;
}

TEST(NewName, MovesTheWholeFileAndLeavesNothingBehind) {
  const TempDir dir;
  const std::string text(3'000'000, 'x');
  for (const std::string& folder : folders_for(dir)) {
    write(dir / "from", text);
    const bool elsewhere = folder != dir / "beside";
    if (elsewhere) write(draft_of(folder + "/to"), "of one that was killed");
    const Result<void> moved = move_to_new(dir / "from", folder + "/to");
    ASSERT_TRUE(moved) << moved.error().message;
    EXPECT_TRUE(content(folder + "/to") == text);
    EXPECT_FALSE(exists(dir / "from"));
    EXPECT_EQ(*list_dir(folder), std::vector<std::string>{"to"});
    EXPECT_TRUE(remove_tree(folder));
  }
}

TEST(NewName, WhatIsThereStaysAsItIs) {
  const TempDir dir;
  for (const std::string& folder : folders_for(dir)) {
    write(dir / "from", "new");
    write(folder + "/file", "precious");
    ASSERT_EQ(::symlink("nowhere", (folder + "/link").c_str()), 0);
    for (const char* name : {"/file", "/link"}) {
      const Result<void> moved = move_to_new(dir / "from", folder + name);
      ASSERT_FALSE(moved);
      EXPECT_EQ(moved.error().os_errno, EEXIST) << moved.error().message;
    }
    EXPECT_EQ(content(folder + "/file"), "precious");
    EXPECT_FALSE(exists(folder + "/nowhere"));
    EXPECT_EQ(content(dir / "from"), "new");
    EXPECT_EQ(list_dir(folder)->size(), 2u) << "a draft is left";
    EXPECT_TRUE(remove_tree(folder));
  }
}

/// Neither by a file system nor by a kernel that has no call for it.
TEST(NewName, IsGivenToFilesAndFoldersWithoutTheCallForIt) {
  const TempDir dir;
  pretend_missing(KernelCall::RenameAt2, true);
  write(dir / "from", "new");
  write(dir / "file", "precious");
  EXPECT_TRUE(make_dirs(dir / "draft", 0700));
  EXPECT_TRUE(make_dirs(dir / "folder", 0700));
  for (const char* from : {"from", "draft"}) {
    for (const char* to : {"file", "folder"}) {
      EXPECT_FALSE(give_new_name(dir / from, dir / to)) << from << " " << to;
      EXPECT_EQ(errno, EEXIST);
    }
    const std::string to = std::string(from) + "-moved";
    EXPECT_TRUE(give_new_name(dir / from, dir / to));
    EXPECT_FALSE(exists(dir / from));
    EXPECT_TRUE(exists(dir / to));
  }
  pretend_missing(KernelCall::RenameAt2, false);
  EXPECT_EQ(content(dir / "file"), "precious");
  EXPECT_EQ(content(dir / "from-moved"), "new");
}

// Whoever may write to the folder, too, puts a link where the draft will be.
TEST(NewName, DraftFollowsNoLink) {
  const TempDir dir;
  const std::vector<std::string> folders = folders_for(dir);
  if (folders.size() < 2) GTEST_SKIP() << "no other file system here";
  write(dir / "from", "new");
  write(dir / "victim", "precious");
  ASSERT_EQ(::symlink((dir / "victim").c_str(), draft_of(folders[1] + "/to").c_str()), 0);
  EXPECT_TRUE(move_to_new(dir / "from", folders[1] + "/to"));
  EXPECT_EQ(content(dir / "victim"), "precious");
  EXPECT_EQ(content(folders[1] + "/to"), "new");
  EXPECT_TRUE(remove_tree(folders[1]));
}

}  // namespace
}  // namespace pergpu::os
