// Who has a file locked: any program, by any lock that is in the way, also by inheritance.
#include "os/fs/lock_holder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "fixture.h"
#include "os/fd.h"
#include "os/fs/lock.h"

namespace pergpu::os {
namespace {

UniqueFd made(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
}

struct stat stat_of(const std::string& path) {
  struct stat file = {};
  EXPECT_EQ(::stat(path.c_str(), &file), 0) << path;
  return file;
}

TEST(LocksIn, ListWhoHasTheFileAndNotWhoWaitsForIt) {
  constexpr char kList[] =
      "1: FLOCK  ADVISORY  WRITE 4711 00:19:42 0 EOF\n"
      "1: -> FLOCK  ADVISORY  WRITE 4712 00:19:42 0 EOF\n"
      "2: LEASE  ACTIVE    READ 4713 00:19:42 0 EOF\n"
      "3: FLOCK  ADVISORY  WRITE 4714 00:19:43 0 EOF\n"
      "4: POSIX  ADVISORY  WRITE -1 00:19:421 0 EOF\n";
  const std::vector<ListedLock> locks = locks_in(kList, "00:19:42");
  ASSERT_EQ(locks.size(), 2u);
  EXPECT_EQ(locks[0].kind, "FLOCK");
  EXPECT_EQ(locks[0].access, "WRITE");
  EXPECT_EQ(locks[0].pid, 4711);
  EXPECT_EQ(locks[1].kind, "LEASE");
  EXPECT_EQ(locks[1].pid, 4713);
}

TEST(LocksIn, TakeFdinfoAndNoNonsense) {
  const std::vector<ListedLock> locks = locks_in(
      "pos:\t0\nflags:\t0100000\nlock:\t1: FLOCK  ADVISORY  READ 0 fe:00:7 0 EOF\n", "fe:00:7");
  ASSERT_EQ(locks.size(), 1u);
  EXPECT_EQ(locks[0].access, "READ");
  EXPECT_EQ(locks[0].pid, 0) << "who took it has ended";
  for (const char* text : {"", "\n", "a", "1: FLOCK ADVISORY WRITE x fe:00:7", "fe:00:7"}) {
    EXPECT_TRUE(locks_in(text, "fe:00:7").empty()) << text;
  }
}

TEST(FindLockHolder, FindsBothKindsOfFlock) {
  const TempDir dir;
  const std::string path = dir / "lock";
  const UniqueFd fd = made(path);
  EXPECT_FALSE(find_lock_holder(stat_of(path)));
  for (const int kind : {LOCK_EX, LOCK_SH}) {
    ASSERT_EQ(::flock(fd.get(), kind | LOCK_NB), 0);
    const std::optional<LockHolder> holder = find_lock_holder(stat_of(path));
    ASSERT_TRUE(holder) << kind;
    EXPECT_EQ(holder->pid, ::getpid());
    EXPECT_EQ(holder->uid, ::geteuid());
    EXPECT_FALSE(holder->program.empty());
  }
}

TEST(FindLockHolder, FindsALease) {
  const TempDir dir;
  const std::string path = dir / "lock";
  const UniqueFd fd = made(path);
  if (::fcntl(fd.get(), F_SETLEASE, F_WRLCK) != 0) GTEST_SKIP() << "no leases on this file system";
  const std::optional<LockHolder> holder = find_lock_holder(stat_of(path));
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->pid, ::getpid());
}

/// A grandchild that inherits a lock from a child that has ended.
class Heir {
 public:
  explicit Heir(const std::string& path) {
    int pipe[2] = {-1, -1};
    EXPECT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const int fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0644);
      if (fd < 0 || ::flock(fd, LOCK_EX | LOCK_NB) != 0) ::_exit(1);
      const pid_t heir = ::fork();
      if (heir == 0) {
        const pid_t self = ::getpid();
        if (::write(pipe[1], &self, sizeof self) != sizeof self) ::_exit(1);
        ::pause();
      }
      ::_exit(0);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(::read(pipe[0], &pid_, sizeof pid_), static_cast<ssize_t>(sizeof pid_));
    ::close(pipe[0]);
    ::close(pipe[1]);
  }
  ~Heir() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
  }
  Heir(const Heir&) = delete;
  Heir& operator=(const Heir&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

TEST(FindLockHolder, FindsWhoInheritedTheLock) {
  const TempDir dir;
  const Heir heir(dir / "lock");
  const std::optional<LockHolder> holder = find_lock_holder(stat_of(dir / "lock"));
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->pid, heir.pid());
}

TEST(FileLock, NamesAnotherProgramThatHasIt) {
  const TempDir dir;
  const std::string path = dir / "lock";
  ASSERT_TRUE(FileLock::try_lock(path, "the coordinator (process 5)"));
  const Heir heir(path);
  const Result<FileLock> refused = FileLock::try_lock(path, "us");
  ASSERT_FALSE(refused);
  const std::string begin = path + " is held by the coordinator (process 5) (now: ";
  EXPECT_TRUE(refused.error().message.starts_with(begin)) << refused.error().message;
  const std::string end =
      "process " + std::to_string(heir.pid()) + " of uid " + std::to_string(::geteuid()) + ")";
  EXPECT_TRUE(refused.error().message.ends_with(end)) << refused.error().message;
}

TEST(WordsOf, NameProgramProcessAndUser) {
  EXPECT_EQ(words_of({.pid = 7, .uid = 1001, .program = "flock"}), "flock, process 7 of uid 1001");
  EXPECT_EQ(words_of({.pid = 7}), "process 7");
}

}  // namespace
}  // namespace pergpu::os
