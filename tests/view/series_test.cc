// Charts a line high: what is not known is never drawn as zero.
#include "view/model/series.h"

#include <gtest/gtest.h>

#include <cmath>

#include "view/text/utf8.h"

namespace pergpu::view {
namespace {

constexpr std::int64_t kSlot = Series::kSlotNs;

TEST(Series, HeightsGoFromZeroToTheTop) {
  Series series;
  for (int i = 0; i <= 7; ++i) series.add(i * kSlot, i / 7.0);
  EXPECT_EQ(series.sparkline(8, 1, true), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(series.sparkline(8, 1, false), "_.:-=+*#");
}

TEST(Series, ALittleIsMoreThanNothingAndTooMuchIsTheTop) {
  Series series;
  series.add(0, 0);
  series.add(kSlot, 0.0001);
  series.add(2 * kSlot, 50);
  EXPECT_EQ(series.sparkline(3, 1, true), "▁▂█");
}

TEST(Series, WhatIsNotKnownIsNeverZero) {
  Series series;
  series.add(0, std::nullopt);
  series.add(kSlot, std::nan(""));
  EXPECT_FALSE(series.any_known());
  EXPECT_EQ(series.sparkline(2, 1, true), "??");
  series.add(2 * kSlot, 0);
  EXPECT_EQ(series.sparkline(5, 1, false), "  ??_");
}

TEST(Series, ValuesWithinASlotCountAsTheirMean) {
  Series series;
  series.add(0, 0);
  series.add(1, std::nullopt);
  series.add(kSlot / 2, 1);
  EXPECT_EQ(series.sparkline(1, 1, true), "▅");
}

TEST(Series, APauseIsAGap) {
  Series series;
  series.add(0, 1);
  series.add(3 * kSlot, 1);
  EXPECT_EQ(series.sparkline(4, 1, false), "#??#");
  series.add(std::int64_t{1'000'000} * kSlot, 1);  // slept for two months
  EXPECT_EQ(columns_of(series.sparkline(1000, 1, false)), 1000);
}

TEST(Series, FillsTheRoomItIsGiven) {
  Series series;
  EXPECT_EQ(series.sparkline(3, 1, true), "   ");
  EXPECT_EQ(series.sparkline(-1, 1, true), "");
  series.add(0, 1);
  EXPECT_EQ(series.sparkline(3, 1, true), "  █");
  EXPECT_EQ(series.sparkline(0, 1, true), "");
}

}  // namespace
}  // namespace pergpu::view
