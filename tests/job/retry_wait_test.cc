#include "job/retry_wait.h"

#include <gtest/gtest.h>

#include <limits>

#include "job/builders.h"

namespace pergpu {
namespace {

using namespace testing_jobs;

constexpr std::int64_t kSecond = 1'000'000'000;

/// Its attempt ended at second 100 of both clocks, and it waits 60 s.
Job waiting_job() {
  Job job = running_job();
  must_apply(job, ended(OutcomeClass::Exit, {.kind = Next::Kind::Again, .delay_ns = 60 * kSecond}),
             at(100));
  return job;
}

/// `step`: how far the wall clock was set since.
Instant later(std::int64_t second, std::int64_t step = 0) {
  Instant now = at(second);
  now.wall_ns += step * kSecond;
  return now;
}

TEST(RetryWait, OfAJobWithoutADelayIsNone) {
  Job job = running_job();
  must_apply(job, ended(OutcomeClass::Exit, {.kind = Next::Kind::Again}), at(100));
  EXPECT_EQ(retry_wait_ns(job, at(100), 0), 0);
  EXPECT_EQ(retry_wait_ns(submitted_job(), at(100), 0), 0);
}

TEST(RetryWait, IsWhatIsLeftOfTheDelay) {
  EXPECT_EQ(retry_wait_ns(waiting_job(), at(100), 0), 60 * kSecond);
  EXPECT_EQ(retry_wait_ns(waiting_job(), at(150), 0), 10 * kSecond);
  EXPECT_EQ(retry_wait_ns(waiting_job(), at(160), 0), 0);
  EXPECT_EQ(retry_wait_ns(waiting_job(), at(1000), 0), 0);
}

TEST(RetryWait, NoStepOfTheWallClockChanges) {
  for (const std::int64_t step : {-3600, -1, 1, 3600}) {
    EXPECT_EQ(retry_wait_ns(waiting_job(), later(100, step), 0), 60 * kSecond) << step;
    EXPECT_EQ(retry_wait_ns(waiting_job(), later(150, step), 0), 10 * kSecond) << step;
    EXPECT_EQ(retry_wait_ns(waiting_job(), later(160, step), 0), 0) << step;
  }
}

// The coordinator was started again at second 120.
TEST(RetryWait, OfWhatWasReadIsNotStretchedByAClockThatWasSetBack) {
  EXPECT_EQ(retry_wait_ns(waiting_job(), later(120, -3600), 120 * kSecond), 40 * kSecond);
  EXPECT_EQ(retry_wait_ns(waiting_job(), later(160, -3600), 120 * kSecond), 0);
}

// The machine was started again: its boot clock is at 5 s, and the coordinator began then.
TEST(RetryWait, OfAnotherBootGoesByTheWallClockAndIsClampedToTheDelay) {
  Instant now = {.wall_ns = at(120).wall_ns, .boot_ns = 5 * kSecond};
  EXPECT_EQ(retry_wait_ns(waiting_job(), now, 5 * kSecond), 40 * kSecond);
  now.wall_ns -= 3600 * kSecond;  // an RTC that is wrong
  EXPECT_EQ(retry_wait_ns(waiting_job(), now, 5 * kSecond), 60 * kSecond);
  now.boot_ns += 60 * kSecond;  // and still is
  now.wall_ns += 60 * kSecond;
  EXPECT_EQ(retry_wait_ns(waiting_job(), now, 5 * kSecond), 0);
  now = {.wall_ns = at(4000).wall_ns, .boot_ns = 5 * kSecond};
  EXPECT_EQ(retry_wait_ns(waiting_job(), now, 5 * kSecond), 0);
}

TEST(RetryWait, OfTheLongestDelayDoesNotOverflow) {
  Job job = running_job();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  must_apply(job, ended(OutcomeClass::Exit, {.kind = Next::Kind::Again, .delay_ns = kMost}),
             at(100));
  EXPECT_GT(retry_wait_ns(job, at(101), 0), kMost / 2);
  EXPECT_GT(retry_wait_ns(job, {.wall_ns = 0, .boot_ns = 0}, 0), kMost / 2);
}

}  // namespace
}  // namespace pergpu
