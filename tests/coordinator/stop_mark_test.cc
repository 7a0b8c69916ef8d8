#include "coordinator/stop_mark.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

namespace pergpu {
namespace {

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
