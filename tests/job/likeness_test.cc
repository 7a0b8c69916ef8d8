// Which jobs are like a new one (job/schedule/likeness.h).
#include "job/schedule/likeness.h"

#include <gtest/gtest.h>

namespace pergpu {
namespace {

constexpr std::uint32_t kMethod = 1;
constexpr std::uint32_t kSeed = 2;

UsageRecord record(double duration_s, std::uint32_t method, std::uint32_t seed,
                   std::optional<std::uint64_t> memory = std::nullopt) {
  return {.duration_s = duration_s,
          .memory_bytes = memory,
          .parameters = {{kMethod, method}, {kSeed, seed}}};
}

std::optional<Estimate> estimate_of(const std::vector<UsageRecord>& records, std::uint32_t method,
                                    std::uint32_t seed) {
  return estimate(records, weights_of(records), {{kMethod, method}, {kSeed, seed}});
}

TEST(Likeness, NothingDoneIsNothingKnown) { EXPECT_FALSE(estimate_of({}, 1, 1)); }

TEST(Likeness, WhatExplainsTheDurationDecidesAndASeedDoesNot) {
  const std::vector<UsageRecord> records = {record(10, 1, 1), record(11, 1, 2), record(50, 2, 1),
                                            record(52, 2, 2)};
  const std::map<std::uint32_t, double> weights = weights_of(records);
  EXPECT_GT(weights.at(kMethod), 0.9);
  EXPECT_EQ(weights.at(kSeed), 0);
  const std::optional<Estimate> slow = estimate_of(records, 2, 7);
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->jobs, 2u);
  EXPECT_DOUBLE_EQ(slow->duration_s, 51);
  EXPECT_DOUBLE_EQ(estimate_of(records, 1, 1)->duration_s, 10.5);
}

TEST(Likeness, AParameterWhoseEveryValueIsSeenOnceExplainsNothing) {
  const std::vector<UsageRecord> records = {record(10, 1, 1), record(90, 1, 2), record(50, 1, 3)};
  EXPECT_EQ(weights_of(records).at(kSeed), 0);
  EXPECT_DOUBLE_EQ(estimate_of(records, 1, 2)->duration_s, 50) << "all are alike";
}

TEST(Likeness, OfWhatNoneIsLikeAllCount) {
  const std::vector<UsageRecord> records = {record(10, 1, 1), record(10, 1, 2), record(50, 2, 1),
                                            record(50, 2, 2)};
  const std::optional<Estimate> other = estimate_of(records, 3, 1);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->jobs, 4u);
  EXPECT_DOUBLE_EQ(other->duration_s, 30);
}

TEST(Likeness, MemoryIsTheMostAndUnknownIsNotZero) {
  const std::vector<UsageRecord> records = {record(10, 1, 1, 100), record(10, 1, 2),
                                            record(10, 1, 3, 300)};
  const std::optional<Estimate> seen = estimate_of(records, 1, 1);
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->memory_bytes, 300u);
  EXPECT_FALSE(seen->gpu_memory_bytes);
}

TEST(Likeness, EqualDurationsAndNoParametersAreNoTrouble) {
  const std::vector<UsageRecord> records = {{.duration_s = 5}, {.duration_s = 5}};
  EXPECT_TRUE(weights_of(records).empty());
  EXPECT_DOUBLE_EQ(estimate(records, {}, {})->duration_s, 5);
  EXPECT_EQ(weights_of({record(5, 1, 1), record(5, 2, 1), record(5, 2, 2)}).at(kMethod), 0);
}

TEST(Likeness, CoresAreKnownWhereAllTellThem) {
  UsageRecord slowed = record(40, 1, 1);
  slowed.cores = 1;
  slowed.alone_s = 10;
  UsageRecord free = record(12, 1, 2);
  free.cores = 2;
  free.alone_s = 12;
  const std::optional<Estimate> both = estimate_of({slowed, free}, 1, 3);
  ASSERT_TRUE(both);
  EXPECT_DOUBLE_EQ(both->cores, 1.5);
  EXPECT_DOUBLE_EQ(both->alone_s, 11);
  EXPECT_EQ(estimate_of({slowed, free, record(11, 1, 4)}, 1, 3)->cores, 0);
}

}  // namespace
}  // namespace pergpu
