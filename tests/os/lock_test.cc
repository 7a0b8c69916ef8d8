#include "os/fs/lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

namespace pergpu::os {
namespace {

TEST(FileLock, OneHolderAtATime) {
  const TempDir dir;
  Result<FileLock> first = FileLock::try_lock(dir / "lock");
  ASSERT_TRUE(first);
  const Result<FileLock> second = FileLock::try_lock(dir / "lock");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::Busy);
  { const FileLock gone = std::move(*first); }
  EXPECT_TRUE(FileLock::try_lock(dir / "lock"));
}

TEST(FileLock, WhoIsRefusedIsToldWhoHoldsIt) {
  const TempDir dir;
  for (const char* note : {"the long name of the first", "second"}) {
    const Result<FileLock> held = FileLock::try_lock(dir / "lock", note);
    ASSERT_TRUE(held);
    const Result<FileLock> refused = FileLock::try_lock(dir / "lock", "third");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, dir / "lock" + " is held by " + note);
  }
}

TEST(FileLock, EndsWithTheProcessThatHeldIt) {
  const TempDir dir;
  int ready[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const Result<FileLock> held = FileLock::try_lock(dir / "lock");
    const char byte = held ? 'y' : 'n';
    if (::write(ready[1], &byte, 1) != 1) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  EXPECT_EQ(FileLock::try_lock(dir / "lock").error().kind, ErrorKind::Busy);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(FileLock::try_lock(dir / "lock"));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(FileLock, NotInheritedByPrograms) {
  const TempDir dir;
  const Result<FileLock> lock = FileLock::try_lock(dir / "lock");
  ASSERT_TRUE(lock);
  EXPECT_TRUE(::fcntl(lock->fd(), F_GETFD) & FD_CLOEXEC);
}

TEST(FileLock, SymlinkIsRefused) {
  const TempDir dir;
  ASSERT_EQ(::symlink("elsewhere", (dir / "lock").c_str()), 0);
  EXPECT_FALSE(FileLock::try_lock(dir / "lock"));
  EXPECT_FALSE(exists(dir / "elsewhere"));
}

TEST(FileLock, AFifoIsRefusedAndNamed) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo((dir / "lock").c_str(), 0600), 0);
  const Result<FileLock> refused = FileLock::try_lock(dir / "lock", "us");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Invalid);
  EXPECT_EQ(refused.error().message,
            "lock file " + dir / "lock" + " isn't a regular file; remove it");
}

}  // namespace
}  // namespace pergpu::os
