// Who but this user can put another file under a path (os/fs/private_path.h).
#include "os/fs/private_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "fixture.h"

namespace pergpu::os {
namespace {

constexpr uid_t kOther = 61001;

void set_mode(const std::string& path, mode_t mode) {
  ASSERT_EQ(::chmod(path.c_str(), mode), 0) << path;
}

struct PrivatePath : ::testing::Test {
  TempDir dir;
  std::string path = dir / "a/b/c";

  void SetUp() override { ASSERT_TRUE(make_dirs(path, 0755)); }
  /// Below the temporary folder: what is above it is the machine's.
  Result<void> check(const std::string& which) const { return check_private(which, dir.path()); }
  std::string why(const std::string& which) const {
    const Result<void> may = check(which);
    if (may) return "";
    EXPECT_EQ(may.error().kind, ErrorKind::Denied) << may.error().message;
    return may.error().message;
  }
};

TEST_F(PrivatePath, NobodyElseMayWriteToAFolderOnTheWay) {
  EXPECT_EQ(why(path), "");
  for (const mode_t mode : {0775, 0757, 0777, 02775}) {
    set_mode(dir / "a", mode);
    EXPECT_NE(why(path).find("others can write to " + dir / "a" + " (mode "), std::string::npos)
        << why(path);
    set_mode(dir / "a", 0755);
    set_mode(path, mode);
    EXPECT_NE(why(path).find("others can write to " + path), std::string::npos);
    set_mode(path, 0755);
  }
}

TEST_F(PrivatePath, AStickyFolderKeepsWhatIsOursButIsNotOurs) {
  set_mode(dir / "a", 01777);
  EXPECT_EQ(why(path), "");
  set_mode(path, 01777);
  EXPECT_NE(why(path), "") << "others can put files into it";
}

TEST_F(PrivatePath, FollowsLinksAndLooksAtBothEnds) {
  ASSERT_TRUE(make_dirs(dir / "links", 0755));
  ASSERT_EQ(::symlink((dir / "a").c_str(), (dir / "links/far").c_str()), 0);
  ASSERT_EQ(::symlink("../a/b", (dir / "links/near").c_str()), 0);
  const std::string far = dir / "links/far/b/c";
  const std::string near = dir / "links/near/../b/./c";
  EXPECT_EQ(why(near), "");
  set_mode(dir / "links", 0777);
  EXPECT_NE(why(near).find(dir / "links"), std::string::npos) << "the link can be replaced";
  set_mode(dir / "links", 0755);
  set_mode(dir / "a", 0777);
  EXPECT_NE(why(near).find(dir / "a"), std::string::npos);
  // From the top again, where it may meet what is above the temporary folder.
  EXPECT_FALSE(check(far));
  ASSERT_EQ(::symlink("loop", (dir / "loop").c_str()), 0);
  EXPECT_EQ(check(dir / "loop").error().os_errno, ELOOP);
}

TEST_F(PrivatePath, AFolderOfAnotherUserIsTheirs) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to make a folder of another user";
  for (const std::string& theirs : {dir / "a", dir / "a/b", path}) {
    ASSERT_EQ(::chown(theirs.c_str(), kOther, kOther), 0);
    EXPECT_EQ(why(path), theirs + " belongs to uid 61001");
    ASSERT_EQ(::chown(theirs.c_str(), 0, 0), 0);
  }
}

TEST_F(PrivatePath, WhatIsNotThereOrNoFolderIsNotPrivate) {
  EXPECT_EQ(check(path + "/no").error().kind, ErrorKind::NotFound);
  ASSERT_TRUE(write_file_atomic(path + "/file", "", 0600, false));
  EXPECT_FALSE(check(path + "/file"));
  EXPECT_FALSE(check(path + "/file/below"));
  EXPECT_FALSE(check_private("a/b", dir.path()));
  EXPECT_FALSE(check_private(dir.path(), path)) << "it isn't below the trusted one";
}

TEST_F(PrivatePath, AboveTheTrustedFolderNothingIsLookedAt) {
  set_mode(dir / "a", 0777);
  EXPECT_TRUE(check_private(path, dir / "a/b"));
  EXPECT_FALSE(check_private(path, dir / "a"));
}

}  // namespace
}  // namespace pergpu::os
