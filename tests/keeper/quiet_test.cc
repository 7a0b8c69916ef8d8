// The rules of quiet.h on made-up clocks.
#include "keeper/quiet.h"

#include <gtest/gtest.h>

namespace pergpu::keeper {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kWall = 1'700'000'000 * kSecond;

struct QuietWatchTest : ::testing::Test {
  Moment now{.awake_ns = 5 * kSecond, .boot_ns = 9 * kSecond, .wall_ns = kWall};
  LogStamp log{.size = 0, .wall_ns = kWall};
  std::int64_t cpu = 0;

  void pass(std::int64_t ns) {
    now.awake_ns += ns;
    now.boot_ns += ns;
    now.wall_ns += ns;
  }
  void suspend(std::int64_t ns) {
    now.boot_ns += ns;
    now.wall_ns += ns;
  }
  void write() { log = {.size = log.size + 1, .wall_ns = now.wall_ns}; }
  /// Goes from look to look for so long; what was found first.
  std::optional<QuietWatch::Found> watch(QuietWatch& quiet, std::int64_t for_ns,
                                         std::int64_t cpu_percent = 0) {
    const std::int64_t end = now.boot_ns + for_ns;
    while (quiet.next_time() <= end) {
      const std::int64_t step = quiet.next_time() - now.boot_ns;
      pass(step);
      cpu += step / 100 * cpu_percent;
      const auto found = quiet.look(now, log, cpu);
      if (!found.empty()) return found.front();
    }
    pass(end - now.boot_ns);
    return std::nullopt;
  }
};

TEST_F(QuietWatchTest, SilenceOfTheLimitIsFoundAtTheLimit) {
  QuietWatch quiet(60 * kSecond, 0, now, log, 0);
  EXPECT_EQ(quiet.next_time(), now.boot_ns + 60 * kSecond);
  const auto found = watch(quiet, 60 * kSecond);
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->is_stall);
  EXPECT_EQ(found->silent_ns, 60 * kSecond);
}

TEST_F(QuietWatchTest, OutputMovesTheDeadlineToItsOwnTime) {
  QuietWatch quiet(60 * kSecond, 0, now, log, 0);
  pass(40 * kSecond);
  write();
  pass(20 * kSecond);
  EXPECT_TRUE(quiet.look(now, log, 0).empty());
  EXPECT_EQ(quiet.next_time(), now.boot_ns + 40 * kSecond);
}

TEST_F(QuietWatchTest, AClockThatWasSetBackOrForwardMakesNoSilence) {
  QuietWatch quiet(60 * kSecond, 0, now, log, 0);
  pass(30 * kSecond);
  write();
  log.wall_ns -= 3600 * kSecond;  // written by a clock that was an hour behind
  pass(30 * kSecond);
  const auto found = quiet.look(now, log, 0);
  ASSERT_EQ(found.size(), 1u);  // cannot be told from an hour ago, but never more than was watched
  EXPECT_EQ(found[0].silent_ns, 60 * kSecond);
  log = {.size = 9, .wall_ns = now.wall_ns + 3600 * kSecond};
  EXPECT_FALSE(watch(quiet, 15 * kSecond));
}

TEST_F(QuietWatchTest, SuspendedTimeIsNoSilence) {
  QuietWatch quiet(60 * kSecond, 40 * kSecond, now, log, 0);
  pass(5 * kSecond);
  suspend(8 * 3600 * kSecond);
  EXPECT_TRUE(quiet.look(now, log, 0).empty());
  EXPECT_GT(quiet.next_time(), now.boot_ns);
  EXPECT_FALSE(watch(quiet, 30 * kSecond));
  EXPECT_TRUE(watch(quiet, 30 * kSecond));
}

TEST_F(QuietWatchTest, ASilentTreeThatWorksIsNoStall) {
  QuietWatch quiet(0, 40 * kSecond, now, log, 0);
  EXPECT_FALSE(watch(quiet, 1000 * kSecond, 2));
  const auto found = watch(quiet, 50 * kSecond);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->is_stall);
}

TEST_F(QuietWatchTest, ACalmTreeThatWritesIsNoStall) {
  QuietWatch quiet(0, 40 * kSecond, now, log, 0);
  for (int i = 0; i < 50; ++i) {
    write();
    EXPECT_FALSE(watch(quiet, 30 * kSecond));
  }
}

TEST_F(QuietWatchTest, AStallIsToldAgainWhileItLasts) {
  QuietWatch quiet(0, 40 * kSecond, now, log, 0);
  EXPECT_TRUE(watch(quiet, 40 * kSecond));
  EXPECT_TRUE(watch(quiet, 10 * kSecond));
}

TEST_F(QuietWatchTest, CpuTimeThatVanishesWithAProcessIsActivity) {
  cpu = 100 * kSecond;
  QuietWatch quiet(0, 40 * kSecond, now, log, cpu);
  EXPECT_FALSE(watch(quiet, 30 * kSecond));
  cpu = 50 * kSecond;
  EXPECT_FALSE(watch(quiet, 30 * kSecond));
}

}  // namespace
}  // namespace pergpu::keeper
