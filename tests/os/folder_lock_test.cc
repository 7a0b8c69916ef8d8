// The right to a folder (os/fs/folder_lock.h): who has it, when it ends, what is trusted.
#include "os/fs/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "fixture.h"
#include "os/fs/folder_walk.h"
#include "os/take_lock.h"

namespace pergpu::os {
namespace {

std::string lock_of(const TempDir& dir) { return dir / FolderLock::kName; }

/// Below a root in which nobody else can write, and not right below /tmp.
class RunFolder {
 public:
  RunFolder() {
    EXPECT_TRUE(make_dirs(path(), 0755));
    EXPECT_EQ(::chmod(top_.path().c_str(), 0755), 0);
  }
  std::string path() const { return top_ / "root/sweep/run"; }
  std::string operator/(const std::string& name) const { return path() + "/" + name; }

 private:
  TempDir top_;
};

TEST(FolderLock, APrivateFileThatWasMovedToItsNameKeepsItsTextAndMode) {
  const TempDir dir;
  ASSERT_TRUE(write_file_atomic(lock_of(dir), "KEY", 0600, false));
  EXPECT_EQ(take_lock(dir.path(), "job 1").error().kind, ErrorKind::Denied);
  (void)holder_of_folder(dir.path());
  tidy_folder(dir.path());
  EXPECT_EQ(*read_file(lock_of(dir), 100), "KEY");
  struct stat st = {};
  ASSERT_EQ(::stat(lock_of(dir).c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600U);
}

TEST(FolderLock, HasOneHolderAtATimeAndNamesIt) {
  const TempDir dir;
  Result<FolderLock> first = take_lock(dir.path(), "job 1 of sweep a");
  ASSERT_TRUE(first) << first.error().message;
  const Result<FolderLock> second = take_lock(dir.path(), "job 2 of sweep b");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::Busy);
  EXPECT_EQ(second.error().message, "job 1 of sweep a");
  EXPECT_EQ(holder_of_folder(dir.path()), "job 1 of sweep a");
  { const FolderLock gone = std::move(*first); }
  EXPECT_EQ(holder_of_folder(dir.path()), std::nullopt);
  EXPECT_TRUE(take_lock(dir.path(), "job 2 of sweep b"));
}

TEST(FolderLock, IsTheSameByEveryPath) {
  const RunFolder dir;
  ASSERT_EQ(::mkdir((dir / "real").c_str(), 0755), 0);
  ASSERT_EQ(::symlink("real", (dir / "link").c_str()), 0);
  const Result<FolderLock> held = take_lock(dir / "real", "a");
  ASSERT_TRUE(held);
  for (const char* other : {"link", "real/../link/.", "real//"}) {
    EXPECT_EQ(take_lock(dir / other, "b").error().kind, ErrorKind::Busy) << other;
  }
}

/// A neighbor can have moved the link there: no lock is made behind it.
TEST(FolderLock, IsNotBehindALinkInASharedFolder) {
  const RunFolder dir;
  ASSERT_TRUE(make_dirs(dir / "private", 0700));
  ASSERT_EQ(::symlink("private", (dir / "link").c_str()), 0);
  ASSERT_EQ(::chmod(dir.path().c_str(), 0775), 0);
  EXPECT_TRUE(is_foreign_link(take_lock(dir / "link", "a").error()));
  EXPECT_EQ(holder_of_folder(dir / "link"), std::nullopt);
  tidy_folder(dir / "link");
  EXPECT_TRUE(list_dir(dir / "private")->empty());
  EXPECT_EQ(*list_dir(dir.path()), (std::vector<std::string>{"link", "private"}));
}

TEST(FolderLock, LastsAsLongAsAProcessHasTheDescriptor) {
  const TempDir dir;
  int gate[2] = {-1, -1};
  ASSERT_EQ(::pipe2(gate, O_CLOEXEC), 0);
  pid_t child = 0;
  {
    const Result<FolderLock> held = take_lock(dir.path(), "the dead");
    ASSERT_TRUE(held);
    child = ::fork();
    if (child == 0) {
      char byte = 0;
      ::close(gate[1]);
      (void)!::read(gate[0], &byte, 1);
      ::_exit(0);
    }
  }
  EXPECT_EQ(take_lock(dir.path(), "next").error().message, "the dead");
  ::close(gate[1]);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(take_lock(dir.path(), "next"));
  ::close(gate[0]);
}

TEST(FolderLock, AnOpenLogHoldsItToo) {
  const TempDir dir;
  UniqueFd log(::open((dir / "log.txt").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  lock_log(log.get());
  const Result<FolderLock> refused = take_lock(dir.path(), "next");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Busy);
  EXPECT_NE(refused.error().message.find("write to its log"), std::string::npos);
  EXPECT_TRUE(holder_of_folder(dir.path()));
  log.reset();
  EXPECT_TRUE(take_lock(dir.path(), "next"));
}

TEST(FolderLock, FolderItselfStaysFreeForTheLocksOfJobs) {
  const TempDir dir;
  const Result<FolderLock> held = take_lock(dir.path(), "a");
  ASSERT_TRUE(held);
  const UniqueFd folder(::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_EQ(::flock(folder.get(), LOCK_EX | LOCK_NB), 0);
}

TEST(FolderLock, TidyingRemovesNoLockThatIsHeld) {
  const TempDir dir;
  {
    const Result<FolderLock> held = take_lock(dir.path(), "a");
    ASSERT_TRUE(held);
    tidy_folder(dir.path());
    EXPECT_TRUE(exists(lock_of(dir)));
  }
  tidy_folder(dir.path());
  EXPECT_FALSE(exists(lock_of(dir)));
  tidy_folder(dir.path());
  EXPECT_TRUE(take_lock(dir.path(), "b"));
}

TEST(FolderLock, NothingThatIsPlantedThereIsFollowedOrWrittenTo) {
  const TempDir dir;
  ASSERT_TRUE(write_file_atomic(dir / "mine", "text", 0644, false));
  ASSERT_EQ(::symlink("mine", lock_of(dir).c_str()), 0);
  EXPECT_FALSE(take_lock(dir.path(), "a"));
  ::unlink(lock_of(dir).c_str());
  ASSERT_EQ(::link((dir / "mine").c_str(), lock_of(dir).c_str()), 0);
  EXPECT_FALSE(take_lock(dir.path(), "a"));
  ::unlink(lock_of(dir).c_str());
  ASSERT_EQ(::mkfifo(lock_of(dir).c_str(), 0666), 0);
  EXPECT_FALSE(take_lock(dir.path(), "a"));
  EXPECT_EQ(*read_file(dir / "mine", 100), "text");
}

TEST(FolderLock, NameOfAHolderIsOneLine) {
  const TempDir dir;
  const Result<FolderLock> held = take_lock(dir.path(), "a\x1b[31m\nb");
  ASSERT_TRUE(held);
  EXPECT_EQ(holder_of_folder(dir.path()), "a?[31m");
}

TEST(FolderLock, WithoutAFolderThereIsNone) {
  const TempDir dir;
  EXPECT_EQ(take_lock(dir / "none", "a").error().kind, ErrorKind::NotFound);
  EXPECT_EQ(holder_of_folder(dir / "none"), std::nullopt);
}

TEST(FolderLock, LeftByAnotherUserIsTakenOver) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs another user";
  const TempDir dir;
  ASSERT_TRUE(write_file_atomic(lock_of(dir), "somebody before", 0644, false));
  ASSERT_EQ(::chown(lock_of(dir).c_str(), 12345, 12345), 0);
  const Result<FolderLock> held = take_lock(dir.path(), "me");
  ASSERT_TRUE(held) << held.error().message;
  EXPECT_EQ(holder_of_folder(dir.path()), "me");
}

/// A folder in a folder of its own, where the lock beside it lies.
class FolderLockBeside : public testing::Test {
 protected:
  FolderLockBeside() { make(); }
  void make() { ASSERT_EQ(::mkdir(folder_.c_str(), 0755), 0) << std::strerror(errno); }
  std::vector<std::string> names() const { return *list_dir(dir_.path()); }

  const std::vector<std::string> alone_ = {"train"};
  RunFolder dir_;
  std::string folder_ = dir_ / "train";
  std::string beside_ = dir_ / ".pergpu-lock.train";
};

TEST_F(FolderLockBeside, OutlivesAFolderThatIsRemovedAndMadeAgain) {
  Result<FolderLock> held = take_lock(folder_, "job 1 of sweep a");
  ASSERT_TRUE(held);
  const Result<HeldFolder> removed = HeldFolder::open(folder_);
  ASSERT_TRUE(removed && remove_tree(folder_));
  EXPECT_EQ(FolderLock::take(*removed, "b").error().message, "job 1 of sweep a");
  EXPECT_EQ(holder_of_folder(folder_), "job 1 of sweep a");
  make();
  EXPECT_EQ(take_lock(folder_, "b").error().message, "job 1 of sweep a");
  EXPECT_EQ(holder_of_folder(folder_), "job 1 of sweep a");
  held->release();
  EXPECT_EQ(holder_of_folder(folder_), std::nullopt);
  EXPECT_TRUE(take_lock(folder_, "b"));
}

TEST_F(FolderLockBeside, OutlivesAFolderThatIsMovedAway) {
  const Result<FolderLock> held = take_lock(folder_, "a");
  ASSERT_TRUE(held);
  ASSERT_EQ(::rename(folder_.c_str(), (dir_ / "before").c_str()), 0);
  make();
  EXPECT_EQ(take_lock(folder_, "b").error().message, "a");
  EXPECT_EQ(take_lock(dir_ / "before", "b").error().message, "a");
}

TEST_F(FolderLockBeside, IsInTheParentThatTheFolderHasNow) {
  ASSERT_EQ(::mkdir((dir_ / "other").c_str(), 0755), 0);
  const Result<HeldFolder> moved = HeldFolder::open(folder_);
  ASSERT_TRUE(moved);
  ASSERT_EQ(::rename(folder_.c_str(), (dir_ / "other/train").c_str()), 0);
  ASSERT_EQ(::symlink("other/train", folder_.c_str()), 0);
  const Result<FolderLock> held = FolderLock::take(*moved, "a");
  ASSERT_TRUE(held);
  EXPECT_EQ(*list_dir(dir_ / "other"), (std::vector<std::string>{".pergpu-lock.train", "train"}));
  EXPECT_EQ(names(), (std::vector<std::string>{"other", "train"}));
}

TEST_F(FolderLockBeside, IsTheSameThroughALinkToTheFolder) {
  ASSERT_EQ(::symlink("train", (dir_ / "link").c_str()), 0);
  for (const char* name : {"link", "train", "train//", "link/.", "link/../train/"}) {
    Result<FolderLock> held = take_lock(dir_ / name, "a");
    ASSERT_TRUE(held) << name;
    ASSERT_TRUE(remove_tree(folder_));
    make();
    EXPECT_EQ(take_lock(folder_, "b").error().kind, ErrorKind::Busy) << name;
    EXPECT_EQ(take_lock(dir_ / "link", "b").error().kind, ErrorKind::Busy) << name;
    held->release();
    tidy_folder(dir_ / "link");
    EXPECT_EQ(names(), (std::vector<std::string>{"link", "train"})) << name;
  }
}

TEST_F(FolderLockBeside, AttemptsOfEarlierReleasesAreSeenAndSeeIt) {
  const std::string inside = folder_ + "/" + FolderLock::kName;
  {
    const UniqueFd theirs(::open(inside.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    ASSERT_EQ(::flock(theirs.get(), LOCK_EX | LOCK_NB), 0);
    EXPECT_EQ(take_lock(folder_, "b").error().kind, ErrorKind::Busy);
    EXPECT_TRUE(holder_of_folder(folder_));
    EXPECT_EQ(names(), alone_);
  }
  const Result<FolderLock> held = take_lock(folder_, "a");
  ASSERT_TRUE(held);
  const UniqueFd theirs(::open(inside.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_LT(::flock(theirs.get(), LOCK_EX | LOCK_NB), 0);
}

TEST_F(FolderLockBeside, LeavesNoFileBehind) {
  EXPECT_EQ(take_lock(dir_ / "none", "a").error().kind, ErrorKind::NotFound);
  EXPECT_EQ(holder_of_folder(folder_), std::nullopt);
  EXPECT_EQ(*list_dir(folder_), std::vector<std::string>{});
  EXPECT_EQ(names(), alone_);
  {
    const Result<FolderLock> held = take_lock(folder_, "a");
    ASSERT_TRUE(held);
    tidy_folder(folder_);
    EXPECT_EQ(names(), (std::vector<std::string>{".pergpu-lock.train", "train"}));
  }
  ASSERT_TRUE(remove_tree(folder_));
  tidy_folder(folder_);
  EXPECT_EQ(names(), std::vector<std::string>{});
}

TEST_F(FolderLockBeside, WithAnotherNameItIsStillLocked) {
  Result<FolderLock> held = take_lock(folder_, "a");
  ASSERT_TRUE(held);
  ASSERT_EQ(::link(beside_.c_str(), (dir_ / "copy").c_str()), 0);  // `cp -al` does this
  ASSERT_TRUE(remove_tree(folder_));
  make();
  EXPECT_EQ(take_lock(folder_, "b").error().kind, ErrorKind::Busy);
  held->release();
  EXPECT_TRUE(take_lock(folder_, "b"));  // by the lock inside
}

TEST_F(FolderLockBeside, LookRefusesWhatIsRefusedForASharedLock) {
  for (const std::string& path : {folder_ + "/" + FolderLock::kName, beside_}) {
    UniqueFd shared(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    ASSERT_EQ(::write(shared.get(), "job 1, gone", 11), 11);
    ASSERT_EQ(::flock(shared.get(), LOCK_SH | LOCK_NB), 0);
    const Result<FolderLock> refused = take_lock(folder_, "b");
    ASSERT_FALSE(refused) << path;
    EXPECT_EQ(refused.error().kind, ErrorKind::Busy);
    EXPECT_NE(refused.error().message.find("by a shared lock on " + path), std::string::npos)
        << refused.error().message;
    EXPECT_EQ(holder_of_folder(folder_), refused.error().message);
    shared.reset();
    EXPECT_EQ(holder_of_folder(folder_), std::nullopt);
  }
}

/// As another user, for a while.
class OtherUser {
 public:
  OtherUser() { EXPECT_EQ(::seteuid(12345), 0); }
  ~OtherUser() { EXPECT_EQ(::seteuid(0), 0); }
};

TEST_F(FolderLockBeside, WhereTheParentCannotBeWrittenTheInnerOneDoes) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs another user";
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
  ASSERT_EQ(::chown(folder_.c_str(), 12345, 12345), 0);
  const OtherUser other;
  const Result<FolderLock> held = take_lock(folder_, "a");
  ASSERT_TRUE(held) << held.error().message;
  EXPECT_EQ(names(), alone_);
  EXPECT_EQ(take_lock(folder_, "b").error().message, "a");
  EXPECT_EQ(holder_of_folder(folder_), "a");
}

TEST_F(FolderLockBeside, IsOfAllUsersWhateverTheUmaskIs) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs another user";
  ASSERT_EQ(::chmod(dir_.path().c_str(), 01777), 0);
  ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  const mode_t before = ::umask(077);
  Result<FolderLock> held = take_lock(folder_, "a");
  ::umask(before);
  ASSERT_TRUE(held);
  ASSERT_TRUE(remove_tree(folder_));
  make();
  ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  const OtherUser other;
  EXPECT_EQ(take_lock(folder_, "b").error().message, "a");
  EXPECT_EQ(holder_of_folder(folder_), "a");
  held->release();
  EXPECT_TRUE(take_lock(folder_, "b"));  // with the file that the first user left
}

/// Takers and tidiers at once: never two holders, whatever is removed and made in between.
void expect_one_holder_at_a_time(const std::string& folder, const std::function<void()>& work) {
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  std::atomic<int> taken = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        Result<FolderLock> held = take_lock(folder, "a");
        if (!held) continue;
        const int now = ++inside;
        if (now > 1) most = now;
        ++taken;
        work();
        --inside;
        { const FolderLock gone = std::move(*held); }
        if (i % 2 == 0) tidy_folder(folder);
        if (i % 3 == 0) (void)holder_of_folder(folder);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 0) << "at once";
  EXPECT_GT(taken, 100);
}

TEST(FolderLock, IsExclusiveWhileItsFileComesAndGoes) {
  const TempDir dir;
  expect_one_holder_at_a_time(dir.path(), [] {});
}

TEST_F(FolderLockBeside, IsExclusiveWhileItsHolderMakesTheFolderAgain) {
  expect_one_holder_at_a_time(folder_, [&] {
    const Result<void> removed = remove_tree(folder_);
    EXPECT_TRUE(removed) << removed.error().message;
    make();
  });
  tidy_folder(folder_);
  EXPECT_EQ(names(), alone_);
}

}  // namespace
}  // namespace pergpu::os
