// Work beside the loop: one piece after the other, results in the loop's thread.
#include "run/errands.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace pergpu {
namespace {

TEST(Errands, OneAfterTheOtherAndTheirResultsInTheLoop) {
  Result<std::unique_ptr<os::Loop>> loop = os::Loop::create();
  ASSERT_TRUE(loop);
  Result<std::unique_ptr<Errands>> errands = Errands::create(**loop);
  ASSERT_TRUE(errands);
  const std::thread::id here = std::this_thread::get_id();
  std::vector<int> results;
  std::atomic<int> at_once = 0;
  constexpr int kCount = 100;
  for (int i = 0; i < kCount; ++i) {
    (*errands)->run([&, i]() -> std::function<void()> {
      EXPECT_NE(std::this_thread::get_id(), here);
      EXPECT_EQ(++at_once, 1);
      --at_once;
      return [&, i] {
        EXPECT_EQ(std::this_thread::get_id(), here);
        results.push_back(i);
        if (i + 1 == kCount) (*loop)->stop();
      };
    });
  }
  ASSERT_TRUE((*loop)->run());
  std::vector<int> expected;
  for (int i = 0; i < kCount; ++i) expected.push_back(i);
  EXPECT_EQ(results, expected);
}

TEST(Errands, OneThatHangsHoldsUpNoOtherWhereThereAreMoreThreads) {
  Result<std::unique_ptr<os::Loop>> loop = os::Loop::create();
  ASSERT_TRUE(loop);
  std::atomic<bool> may_end = false;
  int results = 0;
  constexpr int kCount = 20;
  {
    Result<std::unique_ptr<Errands>> errands = Errands::create(**loop, 3);
    ASSERT_TRUE(errands);
    for (int i = 0; i < 2; ++i) {
      (*errands)->run([&]() -> std::function<void()> {
        may_end.wait(false);
        return {};
      });
    }
    for (int i = 0; i < kCount; ++i) {
      (*errands)->run([&]() -> std::function<void()> {
        return [&] {
          if (++results == kCount) (*loop)->stop();
        };
      });
    }
    EXPECT_TRUE((*loop)->run());
    may_end = true;
    may_end.notify_all();
  }
  EXPECT_EQ(results, kCount);
}

TEST(Errands, TheEndWaitsForWhatIsUnderWayAndForNoResult) {
  Result<std::unique_ptr<os::Loop>> loop = os::Loop::create();
  ASSERT_TRUE(loop);
  std::atomic<bool> began = false;
  std::atomic<bool> may_end = false;
  bool ended = false;
  bool told = false;
  std::thread opener;
  {
    Result<std::unique_ptr<Errands>> errands = Errands::create(**loop);
    ASSERT_TRUE(errands);
    (*errands)->run([&]() -> std::function<void()> {
      began = true;
      began.notify_one();
      may_end.wait(false);
      ended = true;
      return [&] { told = true; };
    });
    began.wait(false);
    opener = std::thread([&] {
      may_end = true;
      may_end.notify_one();
    });
  }
  EXPECT_TRUE(ended);
  EXPECT_FALSE(told);
  opener.join();
}

TEST(Errands, LeavingWaitsNoLongerThanItMay) {
  Result<std::unique_ptr<os::Loop>> loop = os::Loop::create();
  ASSERT_TRUE(loop);
  std::atomic<bool> began = false;
  std::atomic<bool> may_end = false;
  Result<std::unique_ptr<Errands>> errands = Errands::create(**loop);
  ASSERT_TRUE(errands);
  EXPECT_TRUE((*errands)->leave(std::chrono::seconds(0))) << "nothing is under way";
  errands = Errands::create(**loop);
  ASSERT_TRUE(errands);
  (*errands)->run([&]() -> std::function<void()> {
    began = true;
    began.notify_one();
    may_end.wait(false);
    return {};
  });
  began.wait(false);
  EXPECT_FALSE((*errands)->leave(std::chrono::milliseconds(10)));
  may_end = true;
  may_end.notify_one();
  EXPECT_TRUE((*errands)->leave(std::chrono::minutes(1)));
}

}  // namespace
}  // namespace pergpu
