// Readings in bounded memory (job/rollup.h): nothing is lost from the sums, and unknown stays so.
#include "job/rollup.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

namespace pergpu {
namespace {

constexpr std::int64_t kSecond = Rollup::kSecondNs;

UsageReading reading(std::int64_t at_s, float cores) {
  UsageReading one{.boot_ns = at_s * kSecond};
  one[Measure::Cores] = cores;
  return one;
}

TEST(Stat, NothingToldIsNoMean) {
  Stat stat;
  EXPECT_FALSE(stat.mean());
  stat.add(0);
  ASSERT_TRUE(stat.mean());
  EXPECT_EQ(*stat.mean(), 0);
  stat.add(Stat{});
  EXPECT_EQ(stat.count, 1u);
}

TEST(Stat, LeastAndMostAreOfValuesBelowZeroToo) {
  Stat stat;
  stat.add(-3);
  EXPECT_EQ(stat.most, -3);
  Stat other;
  other.add(-5);
  stat.add(other);
  EXPECT_EQ(stat.least, -5);
  EXPECT_EQ(stat.most, -3);
  EXPECT_EQ(stat.sum, -8);
}

TEST(UsageSummaryTest, HasOnlyWhatWasTold) {
  UsageBucket whole;
  whole.add(reading(1, 0.5f));
  whole.add(reading(2, 1.5f));
  const UsageSummary summary = summary_of(whole);
  EXPECT_EQ(summary.readings, 2u);
  ASSERT_TRUE(summary[Measure::Cores]);
  EXPECT_EQ(summary[Measure::Cores]->mean, 1.0f);
  EXPECT_EQ(summary[Measure::Cores]->most, 1.5f);
  EXPECT_FALSE(summary[Measure::GpuBusy]);
  EXPECT_FALSE(summary.read_bytes);
}

TEST(RollupTest, IsFinerTheNewerItIs) {
  Rollup rollup(0, {.seconds = 5, .tens = 3, .whole = 10});
  for (int s = 0; s < 60; ++s) (void)rollup.add(reading(s, static_cast<float>(s)));
  const Rollup::Series seconds = rollup.series(0, kSecond);
  ASSERT_EQ(seconds.buckets.size(), 5u);
  EXPECT_EQ(seconds.step_ns, kSecond);
  EXPECT_EQ(seconds.buckets.front().from_ns, 55 * kSecond);
  const Rollup::Series tens = rollup.series(0, 10 * kSecond);
  ASSERT_EQ(tens.buckets.size(), 3u);
  EXPECT_EQ(tens.buckets.front().from_ns, 30 * kSecond);
  EXPECT_EQ(tens.buckets.front()[Measure::Cores].least, 30);
  EXPECT_EQ(tens.buckets.front()[Measure::Cores].most, 39);
  EXPECT_EQ(*tens.buckets.front()[Measure::Cores].mean(), 34.5);
  const Rollup::Series whole = rollup.series(0, 60 * kSecond);
  ASSERT_EQ(whole.buckets.size(), 1u);
  EXPECT_EQ(whole.buckets[0].readings, 60u);
}

TEST(RollupTest, WithoutAStepTheFinestThatReachesBackIsGiven) {
  Rollup rollup(0, {.seconds = 5, .tens = 3, .whole = 10});
  for (int s = 0; s < 120; ++s) (void)rollup.add(reading(s, 1));
  EXPECT_EQ(rollup.series(116 * kSecond, 0).step_ns, kSecond);
  EXPECT_EQ(rollup.series(95 * kSecond, 0).step_ns, 10 * kSecond);
  EXPECT_EQ(rollup.series(0, 0).step_ns, 60 * kSecond);
}

TEST(RollupTest, AMinuteIsGivenOnceWhenItIsOver) {
  Rollup rollup(30 * kSecond);  // minutes begin with the attempt, not with the clock's
  EXPECT_FALSE(rollup.add(reading(30, 1)));
  EXPECT_FALSE(rollup.add(reading(89, 2)));
  const std::optional<UsageBucket> first = rollup.add(reading(90, 4));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->from_ns, 30 * kSecond);
  EXPECT_EQ(first->readings, 2u);
  EXPECT_EQ(rollup.open_minute().readings, 1u);
  // Minutes without a reading are not there.
  const std::optional<UsageBucket> second = rollup.add(reading(600, 1));
  ASSERT_TRUE(second);
  EXPECT_EQ(second->from_ns, 90 * kSecond);
  EXPECT_EQ(rollup.series(0, 60 * kSecond).buckets.size(), 3u);
}

TEST(RollupTest, AReadingOlderThanTheLastIsLeftOut) {
  Rollup rollup(0);
  (void)rollup.add(reading(5, 1));
  (void)rollup.add(reading(4, 100));
  EXPECT_EQ(rollup.total().readings, 1u);
  EXPECT_EQ(rollup.last()->boot_ns, 5 * kSecond);
}

/// What any readings, at any times, must leave behind.
struct Expected {
  std::uint32_t readings = 0;
  std::array<Stat, kMeasures> stats = {};
  std::uint32_t throttle = 0;
};

UsageReading random_reading(std::int64_t boot_ns) {
  UsageReading one{.boot_ns = boot_ns};
  for (std::optional<float>& value : one.values) {
    if (*rc::gen::arbitrary<bool>()) value = static_cast<float>(*rc::gen::inRange(0, 1 << 20));
  }
  one.throttle = 1u << *rc::gen::inRange(0, 9);
  return one;
}

TEST(RollupProperty, NoReadingIsLostOrCountedTwiceAndBoundsHold) {
  const bool holds = rc::check("sums, bounds and unknown", [] {
    const Rollup::Bounds bounds{.seconds = static_cast<std::size_t>(*rc::gen::inRange(2, 20)),
                                .tens = static_cast<std::size_t>(*rc::gen::inRange(2, 10)),
                                .whole = static_cast<std::size_t>(*rc::gen::inRange(2, 10))};
    const std::int64_t origin = *rc::gen::inRange(0, 100) * kSecond;
    Rollup rollup(origin, bounds);
    Expected expected;
    Expected minutes;
    std::int64_t now = origin;
    const int count = *rc::gen::inRange(1, 200);
    for (int i = 0; i < count; ++i) {
      now += *rc::gen::inRange(0, 60) * kSecond;
      const UsageReading one = random_reading(now);
      ++expected.readings;
      expected.throttle |= one.throttle;
      for (std::size_t m = 0; m < kMeasures; ++m) {
        if (one.values[m]) expected.stats[m].add(*one.values[m]);
      }
      if (const std::optional<UsageBucket> over = rollup.add(one)) {
        minutes.readings += over->readings;
        for (std::size_t m = 0; m < kMeasures; ++m) minutes.stats[m].add(over->stats[m]);
      }
      RC_ASSERT(rollup.series(0, kSecond).buckets.size() <= bounds.seconds);
      RC_ASSERT(rollup.series(0, 10 * kSecond).buckets.size() <= bounds.tens);
      RC_ASSERT(rollup.series(0, 60 * kSecond).buckets.size() <= bounds.whole);
    }
    // The whole series, the minutes that were given and the total say the same.
    UsageBucket whole;
    std::int64_t before = -1;
    for (const UsageBucket& bucket : rollup.series(0, 60 * kSecond).buckets) {
      RC_ASSERT(bucket.from_ns > before);
      RC_ASSERT(bucket.readings > 0u);
      before = bucket.from_ns;
      whole.add(bucket);
    }
    minutes.readings += rollup.open_minute().readings;
    for (std::size_t m = 0; m < kMeasures; ++m) {
      minutes.stats[m].add(rollup.open_minute().stats[m]);
    }
    RC_ASSERT(whole.readings == expected.readings);
    RC_ASSERT(whole.throttle == expected.throttle);
    RC_ASSERT(minutes.readings == expected.readings);
    for (std::size_t m = 0; m < kMeasures; ++m) {
      const Stat& all = expected.stats[m];
      for (const Stat& stat : {whole.stats[m], minutes.stats[m], rollup.total().stats[m]}) {
        RC_ASSERT(stat.count == all.count);
        RC_ASSERT(stat.sum == all.sum);  // whole numbers: no order of adding changes it
        if (all.count == 0) {
          RC_ASSERT(!stat.mean());
          continue;
        }
        RC_ASSERT(stat.least == all.least);
        RC_ASSERT(stat.most == all.most);
        RC_ASSERT(static_cast<double>(stat.least) <= *stat.mean());
        RC_ASSERT(*stat.mean() <= static_cast<double>(stat.most));
      }
    }
  });
  EXPECT_TRUE(holds);
}

TEST(RollupTest, LessMemoryKeepsTheNewestAndTheWhole) {
  Rollup rollup(0);
  for (int s = 0; s < 3600; ++s) (void)rollup.add(reading(s, 1));
  rollup.bound({.seconds = 10, .tens = 4, .whole = 7});
  EXPECT_EQ(rollup.series(0, kSecond).buckets.size(), 10u);
  EXPECT_EQ(rollup.series(0, 10 * kSecond).buckets.front().from_ns, 3560 * kSecond);
  const Rollup::Series whole = rollup.series(0, 3600 * kSecond);
  EXPECT_EQ(whole.step_ns, 960 * kSecond);  // 60 minutes in at most 7 buckets
  std::uint32_t readings = 0;
  for (const UsageBucket& bucket : whole.buckets) readings += bucket.readings;
  EXPECT_EQ(readings, 3600u);
}

}  // namespace
}  // namespace pergpu
