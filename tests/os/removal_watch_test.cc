#include "os/fs/removal_watch.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "fixture.h"

namespace pergpu::os {
namespace {

class RemovalWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(make_dirs(folder_, 0700));
    std::ofstream(folder_ + "/a") << "";
    std::ofstream(folder_ + "/b") << "";
  }
  void wait() { loop_.run(); }

  TempDir temp_;
  std::string folder_ = temp_ / "parent/folder";
  TestLoop loop_;
  RealClock clock_;
  int calls_ = 0;
  RemovalWatch watch_{*loop_, clock_, [this] {
                        ++calls_;
                        loop_->stop();
                      }};
};

TEST_F(RemovalWatchTest, FilesThatGoTogetherAreToldOfOnce) {
  ASSERT_TRUE(watch_.follow({folder_}));
  std::filesystem::remove(folder_ + "/a");
  std::filesystem::rename(folder_ + "/b", temp_ / "b");
  wait();
  EXPECT_EQ(calls_, 1);
}

TEST_F(RemovalWatchTest, AFolderThatIsRemovedAndMadeAgainIsFollowedAgain) {
  ASSERT_TRUE(watch_.follow({folder_}));
  ASSERT_TRUE(remove_tree(temp_ / "parent"));
  wait();
  EXPECT_FALSE(watch_.follow({folder_})) << "it is not there";
  ASSERT_TRUE(make_dirs(folder_, 0700));
  std::ofstream(folder_ + "/a") << "";
  ASSERT_TRUE(watch_.follow({folder_}));
  std::filesystem::remove(folder_ + "/a");
  wait();
  EXPECT_EQ(calls_, 2);
}

TEST_F(RemovalWatchTest, AMissingFolderKeepsNoOtherFromBeingWatched) {
  EXPECT_FALSE(watch_.follow({temp_ / "nowhere", folder_}));
  std::filesystem::rename(folder_, temp_ / "moved");
  wait();
  EXPECT_EQ(calls_, 1);
}

}  // namespace
}  // namespace pergpu::os
