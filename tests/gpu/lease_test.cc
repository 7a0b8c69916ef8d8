// Leases by flock (gpu/lease.h): who has one, when it ends, and which files are trusted.
#include "gpu/lease.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include "support.h"

namespace pergpu::gpu {
namespace {

const std::string kUuid = "GPU-11111111-2222-3333-4444-555555555555";

mode_t mode_of(const std::string& path) {
  struct stat found = {};
  EXPECT_EQ(::lstat(path.c_str(), &found), 0) << path;
  return found.st_mode & 07777;
}

LeaseFolder open_folder(const std::string& path) {
  Result<LeaseFolder> folder = LeaseFolder::open_at(path);
  EXPECT_TRUE(folder) << (folder ? "" : folder.error().message);
  return std::move(*folder);
}

// Runs `body` in a child and returns its exit code.
template <typename Body>
int in_child(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

class LeaseTest : public testing::Test {
 protected:
  TempFolder temp_;
  LeaseFolder folder_ = open_folder(temp_ / "locks");
};

TEST_F(LeaseTest, IsExclusiveAndEndsWithItsObject) {
  Result<Lease> first = folder_.take(kUuid);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->uuid(), kUuid);
  const Result<Lease> second = folder_.take(kUuid);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::Busy);
  EXPECT_TRUE(folder_.take("GPU-other"));
  first->release();
  EXPECT_TRUE(folder_.take(kUuid));
}

TEST_F(LeaseTest, ModesDoNotDependOnTheUmask) {
  const mode_t before = ::umask(077);
  const LeaseFolder strict = open_folder(temp_ / "strict");
  EXPECT_TRUE(strict.take(kUuid));
  EXPECT_FALSE(strict.contended(kUuid));
  ::umask(before);
  EXPECT_EQ(mode_of(strict.path()), 01777u);
  EXPECT_EQ(mode_of(strict.path() + "/" + kUuid), 0644u);
  EXPECT_EQ(mode_of(strict.path() + "/" + kUuid + ".wanted"), 0644u);
}

TEST_F(LeaseTest, FilesStayAndNothingElseIsLeft) {
  { EXPECT_TRUE(folder_.take(kUuid)); }
  EXPECT_EQ(*os::list_dir(folder_.path()), std::vector<std::string>{kUuid});
}

TEST_F(LeaseTest, LockIsTakenThroughAReadOnlyCloseOnExecDescriptor) {
  const Result<Lease> lease = folder_.take(kUuid);
  ASSERT_TRUE(lease);
  EXPECT_EQ(::fcntl(lease->fd(), F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_NE(::fcntl(lease->fd(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(LeaseTest, LivesOnInAnInheritorUntilThatEnds) {
  Result<Lease> lease = folder_.take(kUuid);
  ASSERT_TRUE(lease);
  int gate[2];
  ASSERT_EQ(::pipe2(gate, O_CLOEXEC), 0);
  const pid_t job = ::fork();
  if (job == 0) {
    char byte = 0;
    ::close(gate[1]);
    ::_exit(::read(gate[0], &byte, 1) == 0 ? 0 : 1);
  }
  ::close(gate[0]);
  lease->release();
  EXPECT_FALSE(folder_.take(kUuid)) << "the job still has it";
  ::close(gate[1]);
  int status = 0;
  ::waitpid(job, &status, 0);
  EXPECT_TRUE(folder_.take(kUuid));
}

TEST_F(LeaseTest, AdoptsTheSameOpenFileDescriptionOnly) {
  Result<Lease> lease = folder_.take(kUuid);
  ASSERT_TRUE(lease);
  Result<Lease> adopted = folder_.adopt(kUuid, os::UniqueFd(::dup(lease->fd())));
  ASSERT_TRUE(adopted) << adopted.error().message;
  lease->release();
  EXPECT_FALSE(folder_.take(kUuid)) << "the adopted descriptor holds it";

  Result<os::UniqueFd> stranger = folder_.open_lock(kUuid);
  ASSERT_TRUE(stranger);
  const Result<Lease> refused = folder_.adopt(kUuid, std::move(*stranger));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Busy);

  Result<os::UniqueFd> other = folder_.open_lock("GPU-other");
  ASSERT_TRUE(other);
  adopted->release();
  const Result<Lease> wrong = folder_.adopt(kUuid, std::move(*other));
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().kind, ErrorKind::NotFound) << "the lock of another file is no lease";
}

TEST_F(LeaseTest, ContendedOnlyWhileSomebodyWaits) {
  const Result<Lease> lease = folder_.take(kUuid);
  ASSERT_TRUE(lease);
  EXPECT_FALSE(folder_.contended(kUuid));
  {
    Result<os::UniqueFd> wanted = folder_.open_wanted(kUuid);
    ASSERT_TRUE(wanted);
    ASSERT_EQ(::flock(wanted->get(), LOCK_SH | LOCK_NB), 0);
    EXPECT_TRUE(folder_.contended(kUuid));
    EXPECT_TRUE(folder_.contended(kUuid));
    EXPECT_FALSE(folder_.contended("GPU-other"));
  }
  EXPECT_FALSE(folder_.contended(kUuid));
}

TEST_F(LeaseTest, NamesTheHolder) {
  EXPECT_FALSE(folder_.holder(kUuid).pid);
  const Result<Lease> lease = folder_.take(kUuid);
  ASSERT_TRUE(lease);
  const LeaseHolder holder = folder_.holder(kUuid);
  EXPECT_EQ(holder.pid, ::getpid());
  EXPECT_EQ(holder.uid, ::getuid());
}

TEST(LeaseWords, TellTheUserAndNothingOfTheJobs) {
  EXPECT_EQ(lease_words({.pid = 7, .uid = 1001}, 1002, "alice"), "used by alice (pergpu)");
  EXPECT_EQ(lease_words({}, 1002, ""),
            "used by a process that isn't visible here: another user's, or in another container");
  EXPECT_EQ(lease_words({.pid = 7, .uid = 1002}, 1002, "me"), "held by your other pergpu (pid 7)");
}

TEST(LeaseWords, NameAnyOtherProgramAsSuch) {
  const LeaseHolder holder{.pid = 7, .uid = 1001, .program = "flock"};
  EXPECT_EQ(lease_words(holder, 1002, "alice"),
            "locked by flock, process 7 of alice, which isn't pergpu");
  EXPECT_EQ(lease_words(holder, 1001, "alice"),
            "locked by flock, process 7 of your user, which isn't pergpu");
  for (const char* program : {"", "pergpu", "pergpu-keeper"}) {
    EXPECT_TRUE(is_pergpu({.pid = 7, .uid = 1001, .program = program})) << program;
  }
}

TEST_F(LeaseTest, NamesAHolderWithASharedLock) {
  const Result<os::UniqueFd> fd = folder_.open_lock(kUuid);
  ASSERT_TRUE(fd);
  const os::UniqueFd other(::open((folder_.path() + "/" + kUuid).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(other.get(), LOCK_SH | LOCK_NB), 0);
  ASSERT_EQ(folder_.take(kUuid).error().kind, ErrorKind::Busy);
  const LeaseHolder holder = folder_.holder(kUuid);
  EXPECT_EQ(holder.pid, ::getpid());
  EXPECT_FALSE(is_pergpu(holder)) << holder.program;
}

TEST_F(LeaseTest, SymlinkFifoFolderAndHardLinkAreRefused) {
  ASSERT_TRUE(folder_.take("GPU-real"));
  ASSERT_EQ(::symlink("GPU-real", (folder_.path() + "/GPU-link").c_str()), 0);
  ASSERT_EQ(::mkfifo((folder_.path() + "/GPU-fifo").c_str(), 0644), 0);
  ASSERT_EQ(::mkdir((folder_.path() + "/GPU-dir").c_str(), 0755), 0);
  ASSERT_EQ(::link((folder_.path() + "/GPU-real").c_str(), (temp_ / "second name").c_str()), 0);
  for (const char* uuid : {"GPU-link", "GPU-fifo", "GPU-dir", "GPU-real"}) {
    const Result<Lease> lease = folder_.take(uuid);
    ASSERT_FALSE(lease) << uuid;
    EXPECT_NE(lease.error().kind, ErrorKind::Busy) << uuid;
    EXPECT_NE(lease.error().message.find(folder_.path() + "/" + uuid), std::string::npos)
        << lease.error().message;
  }
}

TEST_F(LeaseTest, LockOnAReplacedFileDoesNotCount) {
  Result<os::UniqueFd> fd = folder_.open_lock(kUuid);
  ASSERT_TRUE(fd);
  ASSERT_EQ(::unlink((folder_.path() + "/" + kUuid).c_str()), 0);
  const Result<Lease> other = folder_.take(kUuid);  // makes a new file
  ASSERT_TRUE(other);
  const Result<Lease> stale = folder_.try_lock(kUuid, *fd);
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().kind, ErrorKind::NotFound);
  EXPECT_FALSE(*fd);
}

TEST_F(LeaseTest, FolderThatWasCleanedAwayIsMadeAgain) {
  ASSERT_TRUE(os::remove_tree(folder_.path()));
  EXPECT_TRUE(folder_.take(kUuid));
  EXPECT_EQ(mode_of(folder_.path()), 01777u);
}

/// Another user who may rename the folder puts a link in its place.
class LeaseFolderThatWasReplaced : public LeaseTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(folder_.take(kUuid));
    ASSERT_EQ(::mkdir(private_.c_str(), 0700), 0);
    ASSERT_EQ(::rename((temp_ / "locks").c_str(), (temp_ / "away").c_str()), 0);
  }
  void TearDown() override {
    EXPECT_EQ(mode_of(private_), 0700u);
    EXPECT_TRUE(os::list_dir(private_)->empty());
  }
  void expect_unused() {
    const Result<Lease> lease = folder_.take(kUuid);
    ASSERT_FALSE(lease);
    EXPECT_NE(lease.error().kind, ErrorKind::NotFound) << "that would be tried again";
    EXPECT_FALSE(folder_.open_wanted(kUuid));
    EXPECT_FALSE(folder_.contended(kUuid));
  }
  const std::string private_ = temp_ / "private";
};

TEST_F(LeaseFolderThatWasReplaced, ByALinkLeadsNowhere) {
  ASSERT_EQ(::symlink(private_.c_str(), (temp_ / "locks").c_str()), 0);
  expect_unused();
}

TEST_F(LeaseFolderThatWasReplaced, WithWhatIsAboveItByALinkOfAnotherLeadsNowhere) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a link of another user";
  const std::string link = temp_ / "link";
  ASSERT_EQ(::symlink(private_.c_str(), link.c_str()), 0);
  ASSERT_EQ(::lchown(link.c_str(), 61002, 61002), 0);
  EXPECT_FALSE(LeaseFolder::open_at(link + "/locks"));
}

TEST_F(LeaseFolderThatWasReplaced, AnOpenLeaseIsNotGoneOnWith) {
  ASSERT_EQ(::rename((temp_ / "away").c_str(), (temp_ / "locks").c_str()), 0);
  Result<os::UniqueFd> fd = folder_.open_lock(kUuid);
  ASSERT_TRUE(fd);
  ASSERT_EQ(::rename((temp_ / "locks").c_str(), (temp_ / "away").c_str()), 0);
  ASSERT_EQ(::symlink((temp_ / "away").c_str(), (temp_ / "locks").c_str()), 0);
  EXPECT_FALSE(folder_.try_lock(kUuid, *fd));
}

TEST_F(LeaseTest, ASlashBehindTheFolderMeansNothing) {
  const Result<LeaseFolder> folder = LeaseFolder::open_at(temp_ / "locks//");
  ASSERT_TRUE(folder) << folder.error().message;
  EXPECT_TRUE(folder->take(kUuid));
}

TEST_F(LeaseTest, NameThatIsNoUuidReachesNoFile) {
  for (const char* name : {"", "../x", "a/b", ".", "GPU 1", "x.wanted"}) {
    const Result<Lease> lease = folder_.take(name);
    ASSERT_FALSE(lease) << name;
    EXPECT_EQ(lease.error().kind, ErrorKind::Invalid) << name;
  }
  EXPECT_TRUE(os::list_dir(folder_.path())->empty());
}

TEST(LeaseFolder, ExistingOnesAreTakenOnlyIfNobodyCouldReplaceTheFiles) {
  TempFolder temp;
  for (const auto& [name, mode, fits] :
       {std::tuple{"shared", 01777, true}, {"private", 0700, true}, {"loose", 0777, false}}) {
    ASSERT_EQ(::mkdir((temp / name).c_str(), 0700), 0);
    ASSERT_EQ(::chmod((temp / name).c_str(), static_cast<mode_t>(mode)), 0);
    const Result<LeaseFolder> folder = LeaseFolder::open_at(temp / name);
    EXPECT_EQ(static_cast<bool>(folder), fits) << name;
    EXPECT_EQ(mode_of(temp / name), static_cast<mode_t>(mode)) << "it is the user's own choice";
    if (!folder) {
      EXPECT_NE(folder.error().message.find("mode 777"), std::string::npos);
      EXPECT_NE(folder.error().message.find("chmod 1777"), std::string::npos);
    }
  }
  ASSERT_EQ(::symlink("shared", (temp / "link").c_str()), 0);
  EXPECT_FALSE(LeaseFolder::open_at(temp / "link"));
  write(temp / "file", "");
  EXPECT_FALSE(LeaseFolder::open_at(temp / "file"));
  const Result<LeaseFolder> nowhere = LeaseFolder::open_at(temp / "no/such");
  ASSERT_FALSE(nowhere);
  EXPECT_NE(nowhere.error().message.find("create lock folder " + (temp / "no/such:")),
            std::string::npos)
      << nowhere.error().message;
}

TEST(LeaseFolder, EnvironmentVariableOverrides) {
  TempFolder temp;
  const ScopedEnv locks("PERGPU_LOCKS", (temp / "mine").c_str());
  const Result<LeaseFolder> folder = LeaseFolder::open();
  ASSERT_TRUE(folder) << folder.error().message;
  EXPECT_EQ(folder->path(), temp / "mine");
  EXPECT_EQ(mode_of(temp / "mine"), 01777u);
}

/// A file system on which nothing can be made.
struct NoRoom {
  const char* options;
  unsigned long flags;
  const char* advice;
};

class LeaseFolderWithoutRoom : public testing::TestWithParam<NoRoom> {};

TEST_P(LeaseFolderWithoutRoom, IsAnErrorAndNoOtherFolderIsTaken) {
  const TempFolder temp;
  for (const char* name : {"first", "second"}) {
    ASSERT_EQ(::mkdir((temp / name).c_str(), 0700), 0);
    ASSERT_EQ(::chmod((temp / name).c_str(), 01777), 0);
  }
  const std::string first = temp / "first/pergpu";
  const std::string second = temp / "second/pergpu";
  enum : std::uint8_t { kRight, kNoMounts, kTaken, kWrongWords };
  const int code = in_child([&]() -> int {
    const NoRoom& room = GetParam();
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", (temp / "first").c_str(), "tmpfs", room.flags, room.options) != 0)
      return kNoMounts;
    const Result<LeaseFolder> folder = LeaseFolder::open_first({first, second});
    if (folder) return kTaken;
    const std::string& words = folder.error().message;
    const bool is_said = words.find("create lock folder " + first) != std::string::npos &&
                         words.find(room.advice) != std::string::npos;
    return is_said && !os::exists(second) ? kRight : kWrongWords;
  });
  if (code == kNoMounts) GTEST_SKIP() << "needs the right to mount";
  EXPECT_EQ(code, kRight);
}

INSTANTIATE_TEST_SUITE_P(Kinds, LeaseFolderWithoutRoom,
                         testing::Values(NoRoom{"mode=1777,nr_inodes=1", 0, "free space in "},
                                         NoRoom{"mode=1777", MS_RDONLY, "read-write"}));

TEST(LeaseFolder, WhereNobodyCanMakeOneTheNextPlaceIsTaken) {
  const TempFolder temp;
  for (const auto& [name, mode] : {std::pair{"closed", 0755}, std::pair{"open", 01777}}) {
    ASSERT_EQ(::mkdir((temp / name).c_str(), 0700), 0);
    ASSERT_EQ(::chmod((temp / name).c_str(), static_cast<mode_t>(mode)), 0);
  }
  const Result<LeaseFolder> folder = LeaseFolder::open_first(
      {temp / "nowhere/pergpu", temp / "closed/pergpu", temp / "open/pergpu"});
  ASSERT_TRUE(folder) << folder.error().message;
  EXPECT_EQ(folder->path(), temp / "open/pergpu");
}

TEST(LeaseOfAnotherUser, LocksTheFilesThatTheFirstUserMade) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: two users take leases of each other's files";
  TempFolder temp;
  ASSERT_EQ(::chmod(temp.path().c_str(), 0755), 0);
  const std::string path = temp / "locks";
  ASSERT_TRUE(LeaseFolder::open_at(path));
  const auto as_user = [&](uid_t uid, auto body) {
    return in_child([&]() -> int {
      ::umask(077);
      if (::setresgid(uid, uid, uid) != 0 || ::setresuid(uid, uid, uid) != 0) return 90;
      Result<LeaseFolder> folder = LeaseFolder::open_at(path);
      if (!folder) return 91;
      return body(*folder);
    });
  };
  const auto takes = [](const LeaseFolder& folder) {
    const Result<Lease> lease = folder.take(kUuid);
    if (lease) return 0;
    return lease.error().kind == ErrorKind::Busy ? 1 : 2;
  };
  EXPECT_EQ(as_user(12345, takes), 0) << "makes the file";
  EXPECT_EQ(as_user(65534, takes), 0) << "takes the other one's file";
  EXPECT_EQ(as_user(65534,
                    [&](const LeaseFolder& folder) {
                      return ::unlink((folder.path() + "/" + kUuid).c_str()) == 0 ? 1 : 0;
                    }),
            0)
      << "cannot remove it";

  const LeaseFolder mine = open_folder(path);
  const Result<Lease> held = mine.take(kUuid);
  ASSERT_TRUE(held);
  EXPECT_EQ(as_user(12345, takes), 1) << "Busy";
  EXPECT_EQ(as_user(12345,
                    [](const LeaseFolder& folder) {
                      const LeaseHolder holder = folder.holder(kUuid);
                      return holder.uid == uid_t{0} ? 0 : 1;
                    }),
            0)
      << "sees who has it";
}

TEST(LeaseFolderFind, MakesNothing) {
  const TempFolder temp;
  const ScopedEnv chosen("PERGPU_LOCKS", (temp / "locks").c_str());
  const Result<std::optional<LeaseFolder>> none = LeaseFolder::find();
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_FALSE(*none);
  EXPECT_FALSE(os::exists(temp / "locks"));
  const LeaseFolder folder = open_folder(temp / "locks");
  const Result<Lease> lease = folder.take(kUuid);
  ASSERT_TRUE(lease);
  const Result<std::optional<LeaseFolder>> found = LeaseFolder::find();
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->path(), temp / "locks");
  EXPECT_EQ((*found)->owner(), ::geteuid());
  EXPECT_EQ((*found)->holder(kUuid).pid, ::getpid());
  EXPECT_FALSE((*found)->holder("GPU-other").pid);
  EXPECT_EQ(*os::list_dir(temp / "locks"), std::vector<std::string>{kUuid});
}

TEST(LeaseFolderFind, WhatCannotBeReliedOnIsRefused) {
  const TempFolder temp;
  const ScopedEnv chosen("PERGPU_LOCKS", (temp / "locks").c_str());
  write(temp / "locks", "no folder");
  const Result<std::optional<LeaseFolder>> found = LeaseFolder::find();
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message.find("is not a folder"), std::string::npos);
}

// A neighbor in a folder that both may write to: gives a private folder the draft's name.
TEST(LeaseFolder, APrivateFolderUnderTheDraftsNameKeepsItsMode) {
  constexpr int kTries = 1000;
  const TempFolder temp;
  const std::string secret = temp / "secret";
  const auto mode_of_open = [](const os::UniqueFd& folder) {
    struct stat found = {};
    return ::fstat(folder.get(), &found) == 0 ? found.st_mode & 07777 : 0;
  };
  std::atomic<bool> is_over{false};
  std::atomic<int> opened{0};
  std::thread neighbor([&] {
    const std::string drafts = fmt::format("{}.new.{}.", temp / "locks", ::getpid());
    const auto take = [&](int n) {
      const std::string draft = drafts + std::to_string(n);
      return ::renameat2(AT_FDCWD, secret.c_str(), AT_FDCWD, draft.c_str(), RENAME_EXCHANGE) == 0;
    };
    int before = -1;  // drafts of earlier tests of this process
    for (int n = 0; !is_over && before < 0; n = n == 4096 ? 0 : n + 1) {
      if (take(n)) before = n - opened;
    }
    while (!is_over) (void)take(before + opened);
  });
  mode_t mode = 0700;
  for (int n = 0; n < kTries && mode == 0700; ++n) {
    // What the swaps have left under its name goes.
    ::rmdir(secret.c_str());
    if (::mkdir(secret.c_str(), 0700) != 0) continue;
    const os::UniqueFd held(::open(secret.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (mode_of_open(held) != 0700) continue;
    ++opened;
    (void)LeaseFolder::open_at(temp / "locks");
    mode = mode_of_open(held);
    ::rmdir((temp / "locks").c_str());
  }
  is_over = true;
  neighbor.join();
  EXPECT_EQ(mode, 0700U);
}

TEST_F(LeaseTest, FaultNamesFilesThatNobodyCanLock) {
  EXPECT_EQ(folder_.fault(kUuid), "");
  ASSERT_TRUE(folder_.take(kUuid));
  EXPECT_EQ(folder_.fault(kUuid), "");
  const std::string file = folder_.path() + "/" + kUuid;
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  EXPECT_NE(folder_.fault(kUuid).find("mode 600"), std::string::npos);
  ASSERT_EQ(::chmod(file.c_str(), 0644), 0);
  ASSERT_EQ(::link(file.c_str(), (folder_.path() + "/other").c_str()), 0);
  EXPECT_NE(folder_.fault(kUuid).find("2 names"), std::string::npos);
  ASSERT_EQ(::symlink("/etc/passwd", (folder_.path() + "/GPU-b.wanted").c_str()), 0);
  EXPECT_NE(folder_.fault("GPU-b").find("GPU-b.wanted is not a regular file"), std::string::npos);
}

}  // namespace
}  // namespace pergpu::gpu
