#include "coordinator/stop_mark.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <filesystem>

namespace pergpu {
namespace {

/// As on a full disk: files can be made, but hold nothing.
class NoRoom {
 public:
  NoRoom() {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    before_handler_ = ::signal(SIGXFSZ, SIG_IGN);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &none);
  }
  ~NoRoom() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, before_handler_);
  }

 private:
  rlimit before_ = {};
  sighandler_t before_handler_ = SIG_DFL;
};

class StopMarkTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "pergpu-XXXXXX";
    home_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(home_); }

  std::string home_;
};

TEST_F(StopMarkTest, IsThereFromAStopUntilItIsRemoved) {
  EXPECT_EQ(stop_mark(home_), "");
  ASSERT_TRUE(write_stop_mark(home_));
  const std::string first = stop_mark(home_);
  EXPECT_NE(first, "");
  ASSERT_TRUE(write_stop_mark(home_));
  EXPECT_NE(stop_mark(home_), first);
  remove_stop_mark(home_);
  EXPECT_EQ(stop_mark(home_), "");
}

TEST_F(StopMarkTest, ThatWasReservedNeedsNoRoomOnTheDisk) {
  ASSERT_TRUE(write_stop_mark(home_));
  const std::string earlier = stop_mark(home_);
  remove_stop_mark(home_);
  reserve_stop_mark(home_);
  EXPECT_EQ(stop_mark(home_), "");
  const NoRoom full;
  ASSERT_TRUE(write_stop_mark(home_));
  EXPECT_NE(stop_mark(home_), "");
  EXPECT_NE(stop_mark(home_), earlier);
  ASSERT_TRUE(write_stop_mark(home_));  // the one that is there holds
  EXPECT_NE(stop_mark(home_), "");
}

TEST_F(StopMarkTest, ThatCannotBeLeftIsAnError) {
  const NoRoom full;
  reserve_stop_mark(home_);
  EXPECT_FALSE(write_stop_mark(home_));
  EXPECT_EQ(stop_mark(home_), "");
}

TEST_F(StopMarkTest, WithoutOneEverybodyMayServe) {
  EXPECT_FALSE(StopGate(home_, true).is_shut());
  EXPECT_FALSE(StopGate(home_, false).is_shut());
}

TEST_F(StopMarkTest, AfterAStopOnlyACommandStartsOne) {
  ASSERT_TRUE(write_stop_mark(home_));
  EXPECT_FALSE(StopGate(home_, true).is_shut());
  EXPECT_TRUE(StopGate(home_, false).is_shut());
}

TEST_F(StopMarkTest, WhoWaitedForTheLockWhenTheStopCameDoesNotTakeOver) {
  const StopGate by_command(home_, true);
  const StopGate by_keeper(home_, false);
  ASSERT_TRUE(write_stop_mark(home_));
  EXPECT_TRUE(by_command.is_shut());
  EXPECT_TRUE(by_keeper.is_shut());
}

TEST_F(StopMarkTest, WhatWasStartedAgainMeanwhileIsNotStopped) {
  ASSERT_TRUE(write_stop_mark(home_));
  const StopGate by_keeper(home_, false);
  remove_stop_mark(home_);
  EXPECT_FALSE(by_keeper.is_shut());
}

}  // namespace
}  // namespace pergpu
