// Durations and sizes as people read them.
#include "job/text.h"

#include <gtest/gtest.h>

namespace pergpu {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(DurationText, HasAtMostTwoUnits) {
  const std::pair<std::int64_t, const char*> expected[] = {{0, "0s"},
                                                           {-5, "0s"},
                                                           {1, "1us"},
                                                           {350'000, "350us"},
                                                           {350'000'000, "350ms"},
                                                           {999'900'000, "1s"},
                                                           {4'200'000'000, "4.2s"},
                                                           {9'990'000'000, "10s"},
                                                           {45 * kSecond, "45s"},
                                                           {59'600'000'000, "1m"},
                                                           {90 * kSecond, "1m30s"},
                                                           {120 * kSecond, "2m"},
                                                           {3'599'900'000'000, "1h"},
                                                           {5'400 * kSecond, "1h30m"},
                                                           {12 * 3'600 * kSecond, "12h"},
                                                           {26 * 3'600 * kSecond, "1d2h"},
                                                           {48 * 3'600 * kSecond, "2d"}};
  for (const auto& [ns, text] : expected) EXPECT_EQ(duration_text(ns), text) << ns;
}

TEST(SizeText, HasAtMostOneDecimal) {
  const std::uint64_t gib = std::uint64_t{1} << 30;
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(512), "512 B");
  EXPECT_EQ(size_text(1'536), "1.5 KiB");
  EXPECT_EQ(size_text(32 * gib), "32 GiB");
  EXPECT_EQ(size_text(33 * gib + gib / 10), "33.1 GiB");
  EXPECT_EQ(size_text(gib - 1), "1 GiB");
  EXPECT_EQ(size_text(~std::uint64_t{0}), "16 EiB");
}

}  // namespace
}  // namespace pergpu
