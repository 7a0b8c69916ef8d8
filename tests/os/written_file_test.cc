// Files that a keeper or a job wrote (os/fs/written_file.h), and what may lie in their place.
#include "os/fs/written_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "fixture.h"

namespace pergpu::os {
namespace {

class WrittenFile : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(make_dirs(dir_ / "out", 0755));
    ASSERT_TRUE(write_file_atomic(dir_ / "secret", "secret", 0600, false));
  }
  /// Refused, and the message says why.
  void expect_refused(const std::string& why, Writer writer = Writer::Job) const {
    const Result<std::string> text = read_written(path_, writer, 100);
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().kind, ErrorKind::Denied);
    EXPECT_NE(text.error().message.find(path_), std::string::npos) << text.error().message;
    EXPECT_NE(text.error().message.find(why), std::string::npos) << text.error().message;
    EXPECT_FALSE(read_written_tail(path_, writer, 100));
  }

  TempDir dir_;
  std::string path_ = dir_ / "out/log.txt";
};

TEST(NextData, PassesOverHolesAndStaysWhereBytesAre) {
  const TempDir dir;
  const UniqueFd fd(::open((dir / "f").c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_EQ(::pwrite(fd.get(), "text", 4, 0), 4);
  EXPECT_EQ(next_data(fd.get(), 2), 2);
  EXPECT_EQ(next_data(fd.get(), 4), 4);  // its end: what is written next comes there
  EXPECT_EQ(next_data(fd.get(), 9), 9);
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  ASSERT_EQ(::ftruncate(fd.get(), kFar), 0);
  const std::int64_t hole = next_data(fd.get(), 1 << 20);
  if (hole == 1 << 20) GTEST_SKIP() << "this file system tells of no holes";
  EXPECT_EQ(hole, kFar);
}

TEST_F(WrittenFile, IsReadUpToALimit) {
  EXPECT_EQ(read_written(path_, Writer::Keeper, 100).error().kind, ErrorKind::NotFound);
  ASSERT_TRUE(write_file_atomic(path_, "one\ntwo\n", 0644, false));
  EXPECT_EQ(*read_written(path_, Writer::Keeper, 8), "one\ntwo\n");
  EXPECT_EQ(read_written(path_, Writer::Keeper, 7).error().kind, ErrorKind::Invalid);
  EXPECT_EQ(*read_written_tail(path_, Writer::Keeper, 4), "two\n");
}

TEST_F(WrittenFile, IsNoLinkAlthoughItsFolderMayBeBehindOne) {
  ASSERT_EQ(::symlink((dir_ / "secret").c_str(), path_.c_str()), 0);
  expect_refused("it's a link");
  const std::string run = dir_ / "root/sweep/run";
  const std::string path = run + "/link/log.txt";
  ASSERT_TRUE(make_dirs(run + "/step", 0755));
  ASSERT_TRUE(write_file_atomic(run + "/step/log.txt", "mine", 0644, false));
  ASSERT_EQ(::symlink("step", (run + "/link").c_str()), 0);
  EXPECT_EQ(*read_written(path, Writer::Keeper, 10), "mine");
  // A neighbor can have moved it there.
  for (const char* shared : {"root", "root/sweep", "root/sweep/run"}) {
    ASSERT_EQ(::chmod((dir_ / shared).c_str(), 0775), 0);
    for (const Result<std::string>& text :
         {read_written(path, Writer::Keeper, 10), read_written_tail(path, Writer::Job, 10)}) {
      ASSERT_FALSE(text) << shared;
      EXPECT_TRUE(is_foreign_link(text.error())) << text.error().message;
    }
    ASSERT_EQ(::chmod((dir_ / shared).c_str(), 0755), 0);
  }
  EXPECT_TRUE(read_written(path, Writer::Job, 10));
}

TEST_F(WrittenFile, HasOneName) {
  ASSERT_EQ(::link((dir_ / "secret").c_str(), path_.c_str()), 0);
  expect_refused("a second name");
}

TEST_F(WrittenFile, IsNoFifoAndNoDevice) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  expect_refused("isn't a regular file");  // and doesn't wait for a writer
  EXPECT_TRUE(remove_tree(path_));
  ASSERT_EQ(::symlink("/dev/zero", path_.c_str()), 0);
  expect_refused("it's a link");
}

TEST_F(WrittenFile, OfAKeeperBelongsToTheUserOrToWhoOwnsItsFolder) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to make files of another user";
  ASSERT_TRUE(write_file_atomic(path_, "theirs", 0644, false));
  ASSERT_EQ(::chown(path_.c_str(), 61001, 61001), 0);
  expect_refused("belongs to uid 61001", Writer::Keeper);
  EXPECT_EQ(*read_written(path_, Writer::Job, 10), "theirs") << "written in a container";
  // A file system on which all of the user's files have another owner.
  ASSERT_EQ(::chown((dir_ / "out").c_str(), 61001, 61001), 0);
  EXPECT_EQ(*read_written(path_, Writer::Keeper, 10), "theirs");
}

TEST_F(WrittenFile, ThatIsExecutedIsOfItsUserAlone) {
  ASSERT_TRUE(write_file_atomic(path_, "mine", 0644, false));
  EXPECT_EQ(*read_written(path_, Writer::User, 10), "mine");
  for (const mode_t mode : {0664, 0646}) {
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
    expect_refused("others can write to it", Writer::User);
  }
  ASSERT_EQ(::chmod(path_.c_str(), 0644), 0);
  EXPECT_EQ(*list_dir(dir_ / "out"), std::vector<std::string>{"log.txt"});
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to make files of another user";
  ASSERT_EQ(::chown(path_.c_str(), 61001, 61001), 0);
  expect_refused("it belongs to uid 61001", Writer::User);
  ASSERT_EQ(::chown((dir_ / "out").c_str(), 61001, 61001), 0);
  expect_refused("it belongs to uid 61001", Writer::User);
}

}  // namespace
}  // namespace pergpu::os
