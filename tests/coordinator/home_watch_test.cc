// A home that goes, comes back, or gets another folder of its name.
#include "coordinator/home_watch.h"

#include <filesystem>
#include <fstream>
#include <optional>

#include "coordinator/sim_clock.h"
#include "os/fixture.h"
#include "timers.h"

namespace pergpu {
namespace {

class HomeWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    make_home();
    lock_ = *os::FileLock::try_lock(home_ + "/coordinator.lock");
    watch_.emplace(HomeWatch::Parts{.clock = &clock_,
                                    .home = home_,
                                    .store = home_ + "/pergpu.db",
                                    .lock = &lock_,
                                    .note = "the coordinator"});
    EXPECT_FALSE(watch_->look());
  }
  void make_home() const {
    ASSERT_TRUE(os::make_dirs(home_, 0700));
    std::ofstream(home_ + "/pergpu.db") << "jobs";
  }
  std::string trouble() {
    watch_->look();
    return watch_->trouble();
  }
  bool says(const std::string& words) { return trouble().find(words) != std::string::npos; }

  os::TempDir temp_;
  std::string home_ = temp_ / "home";
  testing::SimClock clock_;
  os::FileLock lock_;
  std::optional<HomeWatch> watch_;
};

TEST_F(HomeWatchTest, AHomeThatIsMovedBackIsTakenAgain) {
  EXPECT_EQ(trouble(), "");
  std::filesystem::rename(home_, temp_ / "moved");
  EXPECT_FALSE(watch_->has_home());
  EXPECT_TRUE(watch_->look());
  EXPECT_FALSE(watch_->look()) << "no news";
  EXPECT_TRUE(says("the home " + home_ + " was removed or moved away"));
  EXPECT_FALSE(watch_->is_given_up());
  std::filesystem::rename(temp_ / "moved", home_);
  EXPECT_TRUE(watch_->look());
  EXPECT_EQ(trouble(), "");
  EXPECT_TRUE(watch_->has_home());
}

TEST_F(HomeWatchTest, AHomeThatStaysAwayIsGivenUp) {
  std::filesystem::rename(home_, temp_ / "moved");
  EXPECT_NE(trouble(), "");
  clock_.ns += 9 * kSecond;
  EXPECT_FALSE(watch_->is_given_up());
  clock_.ns += 2 * kSecond;
  EXPECT_TRUE(watch_->is_given_up());
  EXPECT_FALSE(watch_->is_succeeded());
}

TEST_F(HomeWatchTest, AnotherFolderOfItsNameIsNotTheHome) {
  ASSERT_TRUE(os::remove_tree(home_));
  make_home();
  EXPECT_TRUE(says("was replaced by another folder"));
  EXPECT_TRUE(watch_->is_given_up());
  EXPECT_FALSE(watch_->has_home());
}

TEST_F(HomeWatchTest, AStoreThatIsRemovedOrReplacedIsSaid) {
  std::filesystem::rename(home_ + "/pergpu.db", home_ + "/aside");
  EXPECT_TRUE(says("the store " + home_ + "/pergpu.db was removed or moved away"));
  std::ofstream(home_ + "/pergpu.db") << "another";
  EXPECT_TRUE(says("was replaced by another file"));
  std::filesystem::rename(home_ + "/aside", home_ + "/pergpu.db");
  EXPECT_EQ(trouble(), "");
}

TEST_F(HomeWatchTest, ALockFileThatWasRemovedIsTakenAgain) {
  const std::string lock = home_ + "/coordinator.lock";
  std::filesystem::remove(lock);
  EXPECT_EQ(trouble(), "");
  EXPECT_FALSE(os::FileLock::try_lock(lock)) << "nobody else gets it";
}

TEST_F(HomeWatchTest, AnotherCoordinatorThatHasTheLockSucceeds) {
  const std::string lock = home_ + "/coordinator.lock";
  std::filesystem::remove(lock);
  const Result<os::FileLock> other = os::FileLock::try_lock(lock, "the coordinator (process 5)");
  ASSERT_TRUE(other);
  EXPECT_TRUE(says("held by the coordinator (process 5)"));
  EXPECT_TRUE(watch_->is_succeeded());
}

}  // namespace
}  // namespace pergpu
