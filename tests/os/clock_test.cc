#include "os/clock.h"

#include <gtest/gtest.h>

#include "os/fs/boot_id.h"

namespace pergpu::os {
namespace {

TEST(RealClock, BootTimeNeverGoesBack) {
  RealClock clock;
  const Instant first = clock.now();
  const Instant second = clock.now();
  EXPECT_GE(second.boot_ns, first.boot_ns);
  EXPECT_GE(boot_now_ns(), second.boot_ns);
}

TEST(RealClock, WallTimeIsOfThisCentury) {
  RealClock clock;
  EXPECT_GT(clock.now().wall_ns, std::int64_t{1'600'000'000} * 1'000'000'000);
}

TEST(BootId, IsTheSameForTheWholeBoot) {
  EXPECT_EQ(boot_id().size(), 36u);
  EXPECT_EQ(boot_id(), boot_id());
}

}  // namespace
}  // namespace pergpu::os
