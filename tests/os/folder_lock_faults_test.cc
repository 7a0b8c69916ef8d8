// The right to a folder (os/fs/folder_lock.h) where files can't be locked, on network file systems,
// and while others look.  This program's flock(2) and statfs(2) are replaced by ones that fail on
// demand.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "fixture.h"
#include "os/fs/folder_lock.h"
#include "os/take_lock.h"

namespace {

std::function<int(int fd, int operation)> on_flock;  // an errno; 0: go on
bool is_network = false;

}  // namespace

extern "C" int flock(int fd, int operation) noexcept {
  const int error = on_flock ? on_flock(fd, operation) : 0;
  if (error == 0) return static_cast<int>(::syscall(SYS_flock, fd, operation));
  errno = error;
  return -1;
}

extern "C" int statfs(const char* path, struct statfs* out) noexcept {
  const int done = static_cast<int>(::syscall(SYS_statfs, path, out));
  if (done == 0 && is_network) out->f_type = 0x6969;  // NFS
  return done;
}

extern "C" int fstatfs(int fd, struct statfs* out) noexcept {
  const int done = static_cast<int>(::syscall(SYS_fstatfs, fd, out));
  if (done == 0 && is_network) out->f_type = 0x6969;
  return done;
}

namespace pergpu::os {
namespace {

bool is_file(int fd) {
  struct stat st = {};
  return ::fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

class FolderLockFaults : public testing::Test {
 protected:
  FolderLockFaults() { EXPECT_EQ(::mkdir(folder_.c_str(), 0755), 0); }
  ~FolderLockFaults() override {
    on_flock = {};
    is_network = false;
  }
  /// What lies beside the folder.
  std::vector<std::string> beside() const {
    std::vector<std::string> names = *list_dir(dir_.path());
    std::erase(names, "train");
    return names;
  }

  TempDir dir_;
  std::string folder_ = dir_ / "train";
};

TEST_F(FolderLockFaults, LookAsksForTheFolderWhereItIsTheFolderThatIsLocked) {
  ASSERT_TRUE(write_file_atomic(folder_ + "/.pergpu-lock", "of a copy", 0644, false));
  is_network = true;
  Result<FolderLock> held = take_lock(folder_, "a");
  ASSERT_TRUE(held) << held.error().message;
  const Result<FolderLock> refused = take_lock(folder_, "b");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Busy);
  EXPECT_EQ(holder_of_folder(folder_), refused.error().message);
  held->release();
  EXPECT_EQ(holder_of_folder(folder_), std::nullopt);
}

TEST_F(FolderLockFaults, OnANetworkFileSystemItOutlivesTheFolder) {
  is_network = true;
  Result<FolderLock> held = take_lock(folder_, "a");
  ASSERT_TRUE(held) << held.error().message;
  ASSERT_TRUE(remove_tree(folder_));
  ASSERT_EQ(::mkdir(folder_.c_str(), 0755), 0);
  EXPECT_EQ(take_lock(folder_, "b").error().kind, ErrorKind::Busy);
  EXPECT_TRUE(holder_of_folder(folder_));
  tidy_folder(folder_);
  EXPECT_EQ(beside().size(), 1u);
  held->release();
  tidy_folder(folder_);
  EXPECT_EQ(beside(), std::vector<std::string>{});
}

TEST_F(FolderLockFaults, WhereFilesCannotBeLockedBothAskForTheFolder) {
  on_flock = [](int fd, int) { return is_file(fd) ? EOPNOTSUPP : 0; };
  Result<FolderLock> held = take_lock(folder_, "a");
  ASSERT_TRUE(held) << held.error().message;
  EXPECT_EQ(take_lock(folder_, "b").error().kind, ErrorKind::Busy);
  EXPECT_TRUE(holder_of_folder(folder_));
  EXPECT_EQ(beside(), std::vector<std::string>{});
  held->release();
  EXPECT_EQ(holder_of_folder(folder_), std::nullopt);
}

TEST_F(FolderLockFaults, LogIsLockedAlthoughSomebodyLooksAtThatMoment) {
  const UniqueFd log(::open((folder_ + "/log.txt").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  int looks = 2;
  on_flock = [&](int fd, int operation) {
    const bool is_in_the_way = fd == log.get() && (operation & LOCK_EX) != 0 && looks-- > 0;
    return is_in_the_way ? EWOULDBLOCK : 0;
  };
  lock_log(log.get());
  on_flock = {};
  EXPECT_TRUE(holder_of_folder(folder_));
}

TEST_F(FolderLockFaults, APrivateFolderUnderTheNameOfALockKeepsItsMode) {
  is_network = true;
  const std::string place = dir_ / ".pergpu-lock.train";
  ASSERT_EQ(::mkdir(place.c_str(), 0700), 0);
  ASSERT_TRUE(write_file_atomic(place + "/notes", "private", 0600, false));
  ASSERT_TRUE(take_lock(folder_, "a"));
  struct stat st = {};
  ASSERT_EQ(::stat(place.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0700U);
}

TEST_F(FolderLockFaults, TheLockFolderIsOpenToOthersWhateverTheUmask) {
  is_network = true;
  const mode_t before = ::umask(077);
  const Result<FolderLock> held = take_lock(folder_, "a");
  ::umask(before);
  ASSERT_TRUE(held);
  struct stat st = {};
  ASSERT_EQ(::stat((dir_ / ".pergpu-lock.train").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0755U);
}

TEST_F(FolderLockFaults, ARemovedFolderIsNotLocked) {
  is_network = true;
  const Result<HeldFolder> removed = HeldFolder::open(folder_);
  ASSERT_TRUE(removed && remove_tree(folder_));
  EXPECT_EQ(FolderLock::take(*removed, "a").error().kind, ErrorKind::NotFound);
  EXPECT_EQ(beside(), std::vector<std::string>{});
}

}  // namespace
}  // namespace pergpu::os
