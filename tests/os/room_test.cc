// Whether a folder can be written to, found out without a trace.
#include "os/fs/room.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "fixture.h"

namespace pergpu::os {
namespace {

struct Room : testing::Test {
  std::string dir() const { return folder_.path(); }
  TempDir folder_;
};

TEST_F(Room, WritingLeavesNothing) {
  EXPECT_TRUE(try_writing(dir()));
  EXPECT_TRUE(std::filesystem::is_empty(dir()));
}

TEST_F(Room, OfAFolderThatIsNotThereYetIsThatAboveIt) {
  EXPECT_TRUE(try_writing(dir() + "/a/b/c"));
  std::ofstream(dir() + "/file") << "x";
  EXPECT_TRUE(try_writing(dir() + "/file"));
  EXPECT_TRUE(try_writing(dir() + "/file/a"));
  EXPECT_NE(device_of(dir() + "/a/b"), 0u);
  EXPECT_EQ(device_of(dir() + "/a/b"), device_of(dir() + "/file"));
}

struct SmallDisk : Room {
  bool mount(const char* options) {
    is_mounted_ = ::geteuid() == 0 && ::mount("none", dir().c_str(), "tmpfs", 0, options) == 0;
    return is_mounted_;
  }
  ~SmallDisk() override {
    if (is_mounted_) ::umount2(dir().c_str(), MNT_DETACH);
  }
  bool remount_read_only() {
    return ::mount("none", dir().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=1m") == 0;
  }
  bool is_mounted_ = false;
};

TEST_F(SmallDisk, ThatIsFullIsSeen) {
  if (!mount("size=64k")) GTEST_SKIP() << "no file system can be mounted here";
  EXPECT_FALSE(seems_full(dir()));
  std::ofstream(dir() + "/filler") << std::string(1 << 20, 'x');
  EXPECT_TRUE(seems_full(dir()));
  const Result<void> written = try_writing(dir() + "/runs/a");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().os_errno, ENOSPC);
  std::filesystem::remove(dir() + "/filler");
  EXPECT_FALSE(seems_full(dir()));
  EXPECT_TRUE(try_writing(dir()));
}

TEST_F(SmallDisk, WithoutInodesIsSeen) {
  if (!mount("size=1m,nr_inodes=5")) GTEST_SKIP() << "no file system can be mounted here";
  for (int i = 0; i < 9; ++i) std::ofstream(dir() + "/" + std::to_string(i)) << "";
  EXPECT_TRUE(seems_full(dir()));
  const Result<void> written = try_writing(dir());
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().os_errno, ENOSPC);
}

TEST_F(SmallDisk, ThatIsReadOnlyIsSeen) {
  if (!mount("size=1m") || !remount_read_only())
    GTEST_SKIP() << "no file system can be mounted here";
  const Result<void> written = try_writing(dir());
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().os_errno, EROFS);
}

}  // namespace
}  // namespace pergpu::os
