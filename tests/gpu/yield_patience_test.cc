// Waiters that never take what they are given cost less each time (gpu/yield_patience.h).
#include "gpu/yield_patience.h"

#include <gtest/gtest.h>

namespace pergpu::gpu {
namespace {

TEST(YieldPatience, HalvesWithEachTimeInVainAndHasAnEnd) {
  YieldPatience patience;
  std::chrono::milliseconds before = YieldPatience::kMost;
  EXPECT_EQ(patience.of("GPU-0"), before);
  for (int i = 0; i < 4; ++i) {
    patience.in_vain("GPU-0");
    EXPECT_EQ(patience.of("GPU-0"), before / 2);
    before = patience.of("GPU-0");
  }
  for (int i = 0; i < 100; ++i) patience.in_vain("GPU-0");
  EXPECT_EQ(patience.of("GPU-0"), YieldPatience::kLeast);
}

TEST(YieldPatience, IsForEachGpuAndComesBackWhenItIsTaken) {
  YieldPatience patience;
  patience.in_vain("GPU-0");
  EXPECT_EQ(patience.of("GPU-1"), YieldPatience::kMost);
  patience.taken("GPU-0");
  EXPECT_EQ(patience.of("GPU-0"), YieldPatience::kMost);
}

}  // namespace
}  // namespace pergpu::gpu
