// The folder of the sockets is emptied, removed, or can't be made again.
#include "coordinator/run_folder.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "os/fixture.h"
#include "os/fs/named_file.h"
#include "os/process/paths.h"

namespace pergpu {
namespace {

class RunFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(os::make_dirs(home_, 0700));
    ASSERT_TRUE(os::make_dirs(path_, 0700));
    ASSERT_TRUE(make(path_));
    folder_.emplace(
        RunFolder::Parts{.loop = &*loop_,
                         .clock = &clock_,
                         .home = home_,
                         .path = path_,
                         .has_home = [this] { return has_home_; },
                         .is_whole = [this] { return socket_.is_there(); },
                         .restore = [this](const std::string& folder) { return make(folder); },
                         .tell_keepers =
                             [this](const std::string& folder) {
                               told_ = folder;
                               loop_->stop();
                             }});
    loop_.run();
  }
  Result<void> make(const std::string& folder) {
    std::ofstream(folder + "/socket") << "";
    socket_ = os::NamedFile(folder + "/socket");
    if (socket_) return {};
    return Error{ErrorKind::Io, 0, "no socket in " + folder};
  }
  std::string told() {
    told_.clear();
    loop_.run();
    return told_;
  }

  os::TempDir temp_;
  std::string home_ = temp_ / "home";
  std::string path_ = temp_ / "runtime/pergpu/run";
  os::TestLoop loop_;
  os::RealClock clock_;
  os::NamedFile socket_;
  bool has_home_ = true;
  std::string told_;
  std::optional<RunFolder> folder_;
};

TEST_F(RunFolderTest, IsMadeAgainHoweverItWent) {
  std::filesystem::remove(path_ + "/socket");
  EXPECT_EQ(told(), path_);
  EXPECT_TRUE(socket_.is_there());
  ASSERT_TRUE(os::remove_tree(temp_ / "runtime"));
  EXPECT_EQ(told(), path_);
  EXPECT_TRUE(socket_.is_there());
  std::filesystem::rename(path_, temp_ / "moved");
  EXPECT_EQ(told(), path_);
  EXPECT_TRUE(socket_.is_there());
  EXPECT_FALSE(os::remembered_run_folder(home_) && *os::remembered_run_folder(home_) != path_);
}

TEST_F(RunFolderTest, LiesInTheHomeWhereItCannotBeMade) {
  ASSERT_TRUE(os::remove_tree(temp_ / "runtime"));
  std::ofstream(temp_ / "runtime") << "a file";
  EXPECT_EQ(told(), home_ + "/run");
  EXPECT_EQ(socket_.path(), home_ + "/run/socket");
  EXPECT_EQ(folder_->path(), home_ + "/run");
}

TEST_F(RunFolderTest, IsToldToClientsWhateverTheyChoseMeanwhile) {
  const std::string other = temp_ / "other";
  ASSERT_TRUE(os::make_dirs(other, 0700));
  ASSERT_TRUE(os::remember_run_folder(home_, other));
  std::filesystem::remove(path_ + "/socket");
  EXPECT_EQ(told(), path_);
  EXPECT_EQ(*os::remembered_run_folder(home_), path_);
}

TEST_F(RunFolderTest, WithoutTheHomeNothingIsMade) {
  has_home_ = false;
  std::filesystem::remove(path_ + "/socket");
  loop_->at(os::boot_now_ns() + 300'000'000, [this] { loop_->stop(); });
  EXPECT_EQ(told(), "");
  EXPECT_FALSE(socket_.is_there());
  has_home_ = true;  // it is back
  EXPECT_EQ(told(), path_);
  EXPECT_TRUE(socket_.is_there());
}

}  // namespace
}  // namespace pergpu
