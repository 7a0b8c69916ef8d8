// The right to a folder (os/folder_lock.h): who has it, when it ends, what is trusted.
#include "os/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "fixture.h"

namespace pergpu::os {
namespace {

std::string lock_of(const TempDir& dir) { return dir / FolderLock::kName; }

TEST(FolderLock, HasOneHolderAtATimeAndNamesIt) {
  const TempDir dir;
  Result<FolderLock> first = FolderLock::take(dir.path(), "job 1 of sweep a");
  ASSERT_TRUE(first) << first.error().message;
  const Result<FolderLock> second = FolderLock::take(dir.path(), "job 2 of sweep b");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::Busy);
  EXPECT_EQ(second.error().message, "job 1 of sweep a");
  EXPECT_EQ(holder_of_folder(dir.path()), "job 1 of sweep a");
  { const FolderLock gone = std::move(*first); }
  EXPECT_EQ(holder_of_folder(dir.path()), std::nullopt);
  EXPECT_TRUE(FolderLock::take(dir.path(), "job 2 of sweep b"));
}

TEST(FolderLock, IsTheSameByEveryPath) {
  const TempDir dir;
  ASSERT_EQ(::mkdir((dir / "real").c_str(), 0755), 0);
  ASSERT_EQ(::symlink("real", (dir / "link").c_str()), 0);
  const Result<FolderLock> held = FolderLock::take(dir / "real", "a");
  ASSERT_TRUE(held);
  for (const char* other : {"link", "real/../link/.", "real//"}) {
    EXPECT_EQ(FolderLock::take(dir / other, "b").error().kind, ErrorKind::Busy) << other;
  }
}

TEST(FolderLock, LastsAsLongAsAProcessHasTheDescriptor) {
  const TempDir dir;
  int gate[2] = {-1, -1};
  ASSERT_EQ(::pipe2(gate, O_CLOEXEC), 0);
  pid_t child = 0;
  {
    const Result<FolderLock> held = FolderLock::take(dir.path(), "the dead");
    ASSERT_TRUE(held);
    child = ::fork();
    if (child == 0) {
      char byte = 0;
      ::close(gate[1]);
      (void)!::read(gate[0], &byte, 1);
      ::_exit(0);
    }
  }
  EXPECT_EQ(FolderLock::take(dir.path(), "next").error().message, "the dead");
  ::close(gate[1]);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(FolderLock::take(dir.path(), "next"));
  ::close(gate[0]);
}

TEST(FolderLock, AnOpenLogHoldsItToo) {
  const TempDir dir;
  UniqueFd log(::open((dir / "log.txt").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  lock_log(log.get());
  const Result<FolderLock> refused = FolderLock::take(dir.path(), "next");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Busy);
  EXPECT_NE(refused.error().message.find("write to its log"), std::string::npos);
  EXPECT_TRUE(holder_of_folder(dir.path()));
  log.reset();
  EXPECT_TRUE(FolderLock::take(dir.path(), "next"));
}

TEST(FolderLock, FolderItselfStaysFreeForTheLocksOfJobs) {
  const TempDir dir;
  const Result<FolderLock> held = FolderLock::take(dir.path(), "a");
  ASSERT_TRUE(held);
  const UniqueFd folder(::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_EQ(::flock(folder.get(), LOCK_EX | LOCK_NB), 0);
}

TEST(FolderLock, TidyingRemovesNoLockThatIsHeld) {
  const TempDir dir;
  {
    const Result<FolderLock> held = FolderLock::take(dir.path(), "a");
    ASSERT_TRUE(held);
    tidy_folder(dir.path());
    EXPECT_TRUE(exists(lock_of(dir)));
  }
  tidy_folder(dir.path());
  EXPECT_FALSE(exists(lock_of(dir)));
  tidy_folder(dir.path());
  EXPECT_TRUE(FolderLock::take(dir.path(), "b"));
}

TEST(FolderLock, NothingThatIsPlantedThereIsFollowedOrWrittenTo) {
  const TempDir dir;
  ASSERT_TRUE(write_file_atomic(dir / "mine", "text", 0644, false));
  ASSERT_EQ(::symlink("mine", lock_of(dir).c_str()), 0);
  EXPECT_FALSE(FolderLock::take(dir.path(), "a"));
  ::unlink(lock_of(dir).c_str());
  ASSERT_EQ(::link((dir / "mine").c_str(), lock_of(dir).c_str()), 0);
  EXPECT_FALSE(FolderLock::take(dir.path(), "a"));
  ::unlink(lock_of(dir).c_str());
  ASSERT_EQ(::mkfifo(lock_of(dir).c_str(), 0666), 0);
  EXPECT_FALSE(FolderLock::take(dir.path(), "a"));
  EXPECT_EQ(*read_file(dir / "mine", 100), "text");
}

TEST(FolderLock, NameOfAHolderIsOneLine) {
  const TempDir dir;
  const Result<FolderLock> held = FolderLock::take(dir.path(), "a\x1b[31m\nb");
  ASSERT_TRUE(held);
  EXPECT_EQ(holder_of_folder(dir.path()), "a?[31m");
}

TEST(FolderLock, WithoutAFolderThereIsNone) {
  const TempDir dir;
  EXPECT_EQ(FolderLock::take(dir / "none", "a").error().kind, ErrorKind::NotFound);
  EXPECT_EQ(holder_of_folder(dir / "none"), std::nullopt);
}

TEST(FolderLock, LeftByAnotherUserIsTakenOver) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs another user";
  const TempDir dir;
  ASSERT_TRUE(write_file_atomic(lock_of(dir), "somebody before", 0644, false));
  ASSERT_EQ(::chown(lock_of(dir).c_str(), 12345, 12345), 0);
  const Result<FolderLock> held = FolderLock::take(dir.path(), "me");
  ASSERT_TRUE(held) << held.error().message;
  EXPECT_EQ(holder_of_folder(dir.path()), "me");
}

/// Takers and tidiers at once: never two holders, whatever is removed and made in between.
TEST(FolderLock, IsExclusiveWhileItsFileComesAndGoes) {
  const TempDir dir;
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  std::atomic<int> taken = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        Result<FolderLock> held = FolderLock::take(dir.path(), "a");
        if (held) {
          most = std::max<int>(most, ++inside);
          ++taken;
          --inside;
          { const FolderLock gone = std::move(*held); }
          if (i % 2 == 0) tidy_folder(dir.path());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_GT(taken, 100);
}

}  // namespace
}  // namespace pergpu::os
