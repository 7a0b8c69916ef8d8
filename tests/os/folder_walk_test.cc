// Walking by descriptors (os/fs/folder_walk.h), also while somebody else swaps the names all the
// time.
#include "os/fs/folder_walk.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "fixture.h"
#include "os/fs/folder_lock.h"
#include "os/fs/written_file.h"
#include "os/take_lock.h"

namespace pergpu::os {
namespace {

constexpr uid_t kOther = 61001;

mode_t mode_of(const std::string& path) {
  struct stat st = {};
  EXPECT_EQ(::lstat(path.c_str(), &st), 0) << path;
  return st.st_mode & 07777;
}

/// A link that belongs to another user.  REQUIRES: this one is root.
void plant(const std::string& target, const std::string& link, uid_t uid = kOther) {
  ASSERT_EQ(::symlink(target.c_str(), link.c_str()), 0) << link;
  ASSERT_EQ(::lchown(link.c_str(), uid, uid), 0);
}

bool is_root() { return ::geteuid() == 0; }

TEST(HeldFolder, IsFoundThroughLinksOfItsUser) {
  const TempDir dir;
  ASSERT_TRUE(make_dirs(dir / "a/b", 0755));
  ASSERT_EQ(::symlink("a", (dir / "link").c_str()), 0);
  ASSERT_EQ(::symlink((dir / "link/b/../b").c_str(), (dir / "far").c_str()), 0);
  for (const char* path : {"a/b", "link/b", "far", "far/", "a//./b", "link/../a/b"}) {
    const Result<HeldFolder> folder = HeldFolder::open(dir / path);
    ASSERT_TRUE(folder) << folder.error().message;
    ASSERT_TRUE(folder->write_file_atomic("f", path, 0600, true));
    EXPECT_EQ(*read_file(dir / "a/b/f", 100), path);
  }
  EXPECT_EQ(HeldFolder::open(dir / "no").error().kind, ErrorKind::NotFound);
  ASSERT_EQ(::symlink("loop", (dir / "loop").c_str()), 0);
  EXPECT_EQ(HeldFolder::open(dir / "loop").error().os_errno, ELOOP);
  EXPECT_FALSE(is_foreign_link(HeldFolder::open(dir / "loop").error()));
}

TEST(HeldFolder, StaysTheSameOneWhateverItsNameLeadsTo) {
  const TempDir dir;
  ASSERT_TRUE(make_dirs(dir / "a", 0755));
  ASSERT_TRUE(make_dirs(dir / "victim", 0700));
  const Result<HeldFolder> folder = HeldFolder::open(dir / "a");
  ASSERT_TRUE(folder);
  ASSERT_EQ(::rename((dir / "a").c_str(), (dir / "b").c_str()), 0);
  ASSERT_EQ(::symlink("victim", (dir / "a").c_str()), 0);
  EXPECT_TRUE(folder->write_new_file("new", "1", 0600));
  EXPECT_EQ(folder->write_new_file("new", "1", 0600).error().os_errno, EEXIST);
  EXPECT_TRUE(folder->write_file_atomic("f", "2", 0600, false));
  EXPECT_TRUE(folder->rename("f", "g"));
  EXPECT_EQ(*list_dir(dir / "b"), (std::vector<std::string>{"g", "new"}));
  EXPECT_EQ(*folder->names(), *list_dir(dir / "b"));
  EXPECT_TRUE(folder->remove_tree("g"));
  EXPECT_TRUE(list_dir(dir / "victim")->empty());
}

TEST(HeldFolder, IsMadeWithItsModeWhateverTheUmask) {
  const TempDir dir;
  ASSERT_EQ(::chmod(dir.path().c_str(), 02755), 0);
  for (const mode_t mask : {0, 022, 077}) {
    const mode_t before = ::umask(mask);
    const std::string path = dir / std::to_string(mask) + "/inner";
    const Result<HeldFolder> made = HeldFolder::make(path, 0775);
    ::umask(before);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(mode_of(path), 02775u);
    EXPECT_EQ(mode_of(parent_of(path)), 02775u);
    EXPECT_TRUE(HeldFolder::make(path, 0700)) << "it's there";
    EXPECT_EQ(mode_of(path), 02775u) << "as it was made";
  }
  ASSERT_TRUE(write_file_atomic(dir / "file", "", 0600, false));
  const Result<HeldFolder> below = HeldFolder::make(dir / "file/x", 0755);
  ASSERT_FALSE(below);
  EXPECT_NE(below.error().message.find("file: a file with that name exists"), std::string::npos)
      << below.error().message;
}

struct HeldFolderBelow : ::testing::Test {
  TempDir dir;
  Result<HeldFolder> root = Error{};

  void SetUp() override {
    ASSERT_TRUE(make_dirs(dir / "root/a/b", 0755));
    ASSERT_TRUE(make_dirs(dir / "away/b", 0755));
    ASSERT_EQ(::symlink("../away", (dir / "root/link").c_str()), 0);
    ASSERT_EQ(::symlink((dir / "away").c_str(), (dir / "root/a/link").c_str()), 0);
    ASSERT_EQ(::symlink("root", (dir / "way").c_str()), 0);
    root = HeldFolder::open(dir / "way");
    ASSERT_TRUE(root);
  }
  void share(const std::string& path, mode_t mode = 0775) const {
    ASSERT_EQ(::chmod((dir / path).c_str(), mode), 0);
  }
};

TEST_F(HeldFolderBelow, LinksAreFollowedWhereNobodyElseCanWrite) {
  for (const char* path : {"a/b", "link/b", "a/link/b", "a//./b/"}) {
    EXPECT_TRUE(root->open_below(path)) << path;
    ASSERT_TRUE(root->make_below(path, 0755)) << path;
  }
  ASSERT_TRUE(root->make_below("link/new/run", 0750));
  EXPECT_EQ(mode_of(dir / "away/new/run"), 0750U);
  EXPECT_EQ(root->open_below("no").error().kind, ErrorKind::NotFound);
}

/// Another user can have put them there.
TEST_F(HeldFolderBelow, LinksAreRefusedFromAFolderOnThatOthersCanWriteTo) {
  for (const mode_t mode : {0775U, 0757U, 01777U}) {
    share("root", mode);
    for (const char* path : {"link", "a/link"}) {
      const Result<HeldFolder> refused = root->open_below(path);
      ASSERT_FALSE(refused) << path;
      EXPECT_TRUE(is_foreign_link(refused.error()));
      EXPECT_EQ(
          refused.error().message.find((dir / "way/") + path + " is a symbolic link in a folder"),
          0U)
          << refused.error().message;
      EXPECT_FALSE(root->make_below(std::string(path) + "/new", 0755));
    }
    EXPECT_TRUE(root->make_below("a/b/c", 0755)) << "without a link it is no matter";
  }
  share("root", 0755);
  share("root/a");
  EXPECT_TRUE(root->open_below("link/b"));
  EXPECT_FALSE(root->open_below("a/link/b"));
  EXPECT_FALSE(exists(dir / "away/new"));
}

TEST_F(HeldFolderBelow, NoPathLeadsOutOfIt) {
  for (const char* path : {"..", "a/../..", "/", "", ".", "a/b/../c"}) {
    EXPECT_EQ(root->open_below(path).error().kind, ErrorKind::Invalid) << path;
    EXPECT_EQ(root->make_below(path, 0755).error().kind, ErrorKind::Invalid) << path;
  }
}

TEST_F(HeldFolderBelow, FilesAreWrittenOnlyWhereItWalks) {
  ASSERT_TRUE(make_below(dir / "way", dir / "way/link/b/c", 0755));
  EXPECT_TRUE(write_below(dir / "way", dir / "way/link/b/f", "1", 0644, false));
  share("root");
  EXPECT_FALSE(make_below(dir / "way", dir / "way/link/b/d", 0755));
  EXPECT_FALSE(write_below(dir / "way", dir / "way/link/b/f", "2", 0644, false));
  EXPECT_FALSE(write_below(dir / "way", dir / "away/b/f", "3", 0644, false));
  EXPECT_EQ(*read_file(dir / "away/b/f", 9), "1");
}

/// What a process leaves that is killed between making a folder and giving it its mode.
TEST(HeldFolder, AFolderThatWasLeftHalfMadeIsFinishedAndNew) {
  const TempDir dir;
  ASSERT_EQ(::mkdir((dir / "left").c_str(), 0700), 0);
  ASSERT_EQ(::chmod((dir / "left").c_str(), 01700), 0);
  const Result<FoundFolder> found = HeldFolder::find_or_make(dir / "left", 0750);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->is_new);
  EXPECT_EQ(mode_of(dir / "left"), 0750U);
  ASSERT_EQ(::chmod((dir / "left").c_str(), 01770), 0);
  EXPECT_FALSE(HeldFolder::find_or_make(dir / "left", 0750)->is_new) << "a user's sticky folder";
  EXPECT_EQ(mode_of(dir / "left"), 01770U);
}

TEST(HeldFolder, TellsWhetherItMadeTheLastFolder) {
  const TempDir dir;
  EXPECT_TRUE(HeldFolder::find_or_make(dir / "a/b", 0755)->is_new);
  EXPECT_FALSE(HeldFolder::find_or_make(dir / "a/b", 0755)->is_new);
  EXPECT_FALSE(HeldFolder::find_or_make(dir / "a", 0755)->is_new);
  ASSERT_EQ(::symlink("c", (dir / "link").c_str()), 0);
  EXPECT_TRUE(HeldFolder::find_or_make(dir / "link", 0755)->is_new);
  EXPECT_FALSE(HeldFolder::find_or_make(dir / "link", 0755)->is_new);
}

TEST(HeldFolder, LinksOfAnotherUserAreNamedNotFollowed) {
  if (!is_root()) GTEST_SKIP() << "needs root, to make a link of another user";
  const TempDir dir;
  ASSERT_TRUE(make_dirs(dir / "victim/a", 0700));
  ASSERT_TRUE(make_dirs(dir / "runs", 0777));
  plant(dir / "victim", dir / "runs/s");
  for (const char* path : {"runs/s", "runs/s/a", "runs/s/new/deep"}) {
    for (const Result<HeldFolder>& folder :
         {HeldFolder::open(dir / path), HeldFolder::make(dir / path, 0777)}) {
      ASSERT_FALSE(folder) << path;
      EXPECT_TRUE(is_foreign_link(folder.error())) << folder.error().message;
      EXPECT_EQ(
          folder.error().message.find(dir / "runs/s is a symbolic link that belongs to uid 61001"),
          0u)
          << folder.error().message;
    }
  }
  // Also behind a link of the user's own.
  ASSERT_EQ(::symlink("runs/s", (dir / "mine").c_str()), 0);
  EXPECT_TRUE(is_foreign_link(HeldFolder::open(dir / "mine").error()));
  EXPECT_EQ(*list_dir(dir / "victim"), std::vector<std::string>{"a"});
  EXPECT_TRUE(HeldFolder::open(dir / "runs/s/a", Links::Anyones));
  EXPECT_FALSE(write_below(dir / "runs", dir / "runs/s/f", "", 0644, false));
  EXPECT_FALSE(take_lock(dir / "runs/s", "me"));
  EXPECT_EQ(*list_dir(dir / "victim"), std::vector<std::string>{"a"});
}

TEST(WalkThrough, HoldsTheFileThatLinksOfItsUserLeadTo) {
  const TempDir dir;
  ASSERT_TRUE(make_dirs(dir / "a", 0755));
  ASSERT_EQ(::symlink("a/f", (dir / "mine").c_str()), 0);
  ASSERT_EQ(::symlink((dir / "mine").c_str(), (dir / "far").c_str()), 0);
  ASSERT_EQ(::symlink("loop", (dir / "loop").c_str()), 0);
  for (const char* path : {"a/f", "mine", "far"}) {
    const Result<HeldName> file = walk_through(dir / path);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->name, "f");
    ASSERT_TRUE(file->folder.write_file_atomic(file->name, path, 0600, false));
    EXPECT_EQ(*read_file(dir / "a/f", 100), path);
  }
  EXPECT_EQ(walk_through(dir / "loop").error().os_errno, ELOOP);
  // What is planted later is replaced, and not written through.
  const Result<HeldName> held = walk_through(dir / "a/f");
  ASSERT_TRUE(held && write_file_atomic(dir / "secret", "mine", 0600, false));
  ASSERT_EQ(::unlink((dir / "a/f").c_str()), 0);
  ASSERT_EQ(::symlink("../secret", (dir / "a/f").c_str()), 0);
  ASSERT_TRUE(held->folder.write_file_atomic(held->name, "page", 0600, false));
  EXPECT_EQ(*read_file(dir / "secret", 100), "mine");
}

TEST(WalkThrough, FindsLinksOfAnotherUserWhereverTheyAre) {
  if (!is_root()) GTEST_SKIP() << "needs root, to make a link of another user";
  const TempDir dir;
  ASSERT_TRUE(make_dirs(dir / "a", 0755));
  ASSERT_TRUE(write_file_atomic(dir / "a/f", "", 0600, false));
  ASSERT_EQ(::symlink("a/f", (dir / "mine").c_str()), 0);
  ASSERT_EQ(::symlink("gone", (dir / "dangling").c_str()), 0);
  plant("a/f", dir / "theirs");
  plant("a", dir / "folder");
  ASSERT_EQ(::symlink("theirs", (dir / "indirect").c_str()), 0);
  for (const char* path : {"a/f", "mine", "dangling", "no/such", "a"}) {
    const Result<HeldName> may = walk_through(dir / path);
    EXPECT_TRUE(may || !is_foreign_link(may.error())) << path;
  }
  for (const char* path : {"theirs", "folder/f", "folder/new", "indirect"}) {
    const Result<HeldName> may = walk_through(dir / path);
    ASSERT_FALSE(may) << path;
    EXPECT_TRUE(is_foreign_link(may.error())) << may.error().message;
  }
}

// Not even for a moment: a lock file beside the folder that it leads to would lie there.
TEST(FolderLockPlace, IsNotBehindALinkOfAnotherUser) {
  if (!is_root()) GTEST_SKIP() << "needs root, to make a link of another user";
  const TempDir dir;
  ASSERT_TRUE(make_dirs(dir / "victim/a", 0700));
  plant("victim", dir / "theirs");
  ASSERT_EQ(::symlink("theirs/a", (dir / "mine").c_str()), 0);
  const timespec long_ago[2] = {{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1, .tv_nsec = 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (dir / "victim").c_str(), long_ago, 0), 0);
  EXPECT_FALSE(take_lock(dir / "mine", "me"));
  EXPECT_FALSE(holder_of_folder(dir / "mine"));
  struct stat st = {};
  ASSERT_EQ(::stat((dir / "victim").c_str(), &st), 0);
  EXPECT_EQ(st.st_mtim.tv_sec, 1) << "something was made in it";
}

/// Another user, who may rename everything in `runs`, and does so as fast as possible.
class Adversary {
 public:
  /// `uid`: the owner of the link that is moved.
  explicit Adversary(const TempDir& dir, uid_t uid = kOther) : dir_(dir) {
    plant(dir_ / "victim", dir_ / "runs/link", uid);
    thread_ = std::thread([this] {
      while (!stop_) turn();
    });
  }
  ~Adversary() {
    stop_ = true;
    thread_.join();
  }
  unsigned swaps() const { return swaps_; }

 private:
  void turn() {
    exchange("runs/s", "runs/link");
    // What has just been made becomes a link, or a folder that is nobody else's business.
    if (exchange("runs/fresh", "runs/link")) exchange("runs/fresh", "runs/link");
    if (exchange("runs/fresh", "runs/private")) exchange("runs/fresh", "runs/private");
  }
  bool exchange(const char* a, const char* b) {
    const bool done = ::renameat2(AT_FDCWD, (dir_ / a).c_str(), AT_FDCWD, (dir_ / b).c_str(),
                                  RENAME_EXCHANGE) == 0;
    if (done) ++swaps_;
    return done;
  }

  const TempDir& dir_;
  std::atomic<bool> stop_ = false;
  std::atomic<unsigned> swaps_ = 0;
  std::thread thread_;
};

class FolderRace : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_root()) GTEST_SKIP() << "needs root, to make links of another user";
    for (const char* folder : {"victim/sub", "runs/s", "runs/private"})
      ASSERT_TRUE(make_dirs(dir_ / folder, 0700));
    ASSERT_EQ(::chmod((dir_ / "runs").c_str(), 0777), 0);
    for (const char* file : {"victim/config.json", "victim/log.txt", "victim/sub/f"})
      ASSERT_TRUE(write_file_atomic(dir_ / file, "secret", 0600, false));
  }
  /// Nothing that happened touched what is private.
  void expect_untouched() const {
    ASSERT_EQ(mode_of(dir_ / "victim"), 0700u);
    ASSERT_EQ(*list_dir(dir_ / "victim"),
              (std::vector<std::string>{"config.json", "log.txt", "sub"}));
    for (const char* file : {"victim/config.json", "victim/log.txt", "victim/sub/f"})
      ASSERT_EQ(*read_file(dir_ / file, 100), "secret") << file;
  }
  void operation(int number) const;

  TempDir dir_;
};

void FolderRace::operation(int number) const {
  const std::string s = dir_ / "runs/s";
  switch (number % 6) {
    case 0: {
      (void)HeldFolder::make(dir_ / "runs/fresh/a", 0777);
      const Result<HeldFolder> runs = HeldFolder::open(dir_ / "runs");
      ASSERT_TRUE(runs);
      (void)runs->remove_tree("fresh");
      break;
    }
    case 1:
      (void)write_below(dir_ / "runs", s + "/config.json", "mine", 0666, false);
      break;
    case 2:
      if (const Result<HeldFolder> folder = HeldFolder::open(s); folder) {
        (void)folder->rename("config.json", "log.txt");
        (void)folder->remove_tree("sub");
      }
      break;
    case 3: {
      const Result<std::string> text = read_written(s + "/config.json", Writer::Keeper, 100);
      ASSERT_TRUE(!text || *text == "mine") << *text;
      break;
    }
    case 4:
      (void)take_lock(s, "me");
      break;
    case 5:
      (void)HeldFolder::make(s + "/sub/deep", 0777);
      break;
  }
}

// ./test takes 2,000 operations; PERGPU_RACES says how many others.
int operations() {
  const char* wanted = std::getenv("PERGPU_RACES");
  return wanted != nullptr ? std::atoi(wanted) : 2'000;
}

TEST_F(FolderRace, WhoeverSwapsNamesGainsNothing) {
  const Adversary adversary(dir_);
  for (int i = 0; i < operations(); ++i) {
    ASSERT_NO_FATAL_FAILURE(operation(i)) << i;
    ASSERT_NO_FATAL_FAILURE(expect_untouched()) << i;
  }
  EXPECT_GT(adversary.swaps(), 0u);
}

TEST_F(FolderRace, ALinkOfTheUserThatIsMovedThereLeadsNowhere) {
  const std::string runs = dir_ / "runs";
  const Adversary adversary(dir_, ::geteuid());
  for (int i = 0; i < operations(); ++i) {
    if (i % 2 == 0) {
      (void)make_below(runs, runs + "/fresh/a", 0777);
      const Result<HeldFolder> root = HeldFolder::open(runs);
      ASSERT_TRUE(root);
      (void)root->remove_tree("fresh");
    } else if (write_below(runs, runs + "/s/config.json", "mine", 0666, false)) {
      const Result<HeldName> file = walk_below(runs, runs + "/s/config.json");
      if (file) (void)file->folder.rename(file->name, "log.txt");
    }
    ASSERT_NO_FATAL_FAILURE(expect_untouched()) << i;
  }
  EXPECT_GT(adversary.swaps(), 0u);
}

// The mode is set on the folder that was made, not on one that has got its name.
TEST_F(FolderRace, APrivateFolderUnderTheFreshNameKeepsItsMode) {
  ASSERT_TRUE(write_file_atomic(dir_ / "runs/private/marker", "", 0600, false));
  const mode_t before = ::umask(077);
  {
    const Adversary adversary(dir_);
    for (int i = 0; i < 1'000; ++i) {
      (void)HeldFolder::make(dir_ / "runs/fresh", 0777);
      (void)::rmdir((dir_ / "runs/fresh").c_str());  // unless it isn't the fresh one
    }
  }
  ::umask(before);
  int found = 0;
  const std::vector<std::string> names = *list_dir(dir_ / "runs");
  for (const std::string& name : names) {
    const std::string path = dir_ / "runs/" + name;
    struct stat st = {};
    if (::lstat((path + "/marker").c_str(), &st) != 0) continue;
    EXPECT_EQ(mode_of(path), 0700u);
    ++found;
  }
  EXPECT_EQ(found, 1);
  ASSERT_NO_FATAL_FAILURE(expect_untouched());
}

}  // namespace
}  // namespace pergpu::os
