// What the store keeps of an attempt's usage (job/usage_blob.h).
#include "job/usage_blob.h"

#include <gtest/gtest.h>

#include "job/rollup.h"

namespace pergpu {
namespace {

constexpr std::int64_t kMinute = Rollup::kMinuteNs;

UsageBucket minute(std::int64_t from_ns, bool is_full) {
  UsageBucket bucket{.from_ns = from_ns, .width_ns = kMinute};
  for (int i = 0; i < 60; ++i) {
    UsageReading reading;
    for (std::size_t m = 0; m < kMeasures; ++m) {
      if (is_full || m % 2 == 0) reading.values[m] = static_cast<float>(i) + static_cast<float>(m);
    }
    reading.throttle = 4;
    bucket.add(reading);
  }
  return bucket;
}

TEST(UsageBlob, MinutesComeBackAndUnknownStaysUnknown) {
  const std::vector<UsageBucket> minutes = {minute(5 * kMinute, true), minute(9 * kMinute, false)};
  const std::string bytes = minutes_to_bytes(minutes, 5 * kMinute);
  const auto back = minutes_of_bytes(bytes, 5 * kMinute);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, minutes);
  EXPECT_FALSE((*back)[1].stats[1].mean());
}

TEST(UsageBlob, TimesAreRelative) {
  const std::vector<UsageBucket> minutes = {minute(5 * kMinute, true)};
  const auto back = minutes_of_bytes(minutes_to_bytes(minutes, 4 * kMinute), 100 * kMinute);
  ASSERT_TRUE(back);
  EXPECT_EQ((*back)[0].from_ns, 101 * kMinute);
}

// What docs/telemetry.md says an hour of an attempt takes.
TEST(UsageBlob, AMinuteTakesAtMost166Bytes) {
  EXPECT_EQ(kMostMinuteBytes, 166u);
  const std::vector<UsageBucket> full = {minute(0, true)};
  EXPECT_EQ(minutes_to_bytes(full, 0).size(), 1 + kMostMinuteBytes);
}

TEST(UsageBlob, NoMinutesAreNoMinutes) {
  const auto back = minutes_of_bytes(minutes_to_bytes({}, 0), 0);
  ASSERT_TRUE(back);
  EXPECT_TRUE(back->empty());
}

TEST(UsageBlob, WhatIsCutOffOrStrangeIsRefused) {
  const std::vector<UsageBucket> minutes = {minute(0, true)};
  const std::string bytes = minutes_to_bytes(minutes, 0);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    if (size == 1) continue;  // no minutes
    EXPECT_FALSE(minutes_of_bytes(bytes.substr(0, size), 0)) << size;
  }
  EXPECT_FALSE(minutes_of_bytes("\x02", 0));
  EXPECT_FALSE(minutes_of_bytes(bytes + std::string(12 + 14, '\xff'), 0));  // no numbers
}

}  // namespace
}  // namespace pergpu
