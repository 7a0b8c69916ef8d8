// Counts as people read them.
#include "plural.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace pergpu {
namespace {

TEST(Counted, HasAnSBehindEachNumberButOne) {
  EXPECT_EQ(counted(0, "job"), "0 jobs");
  EXPECT_EQ(counted(1, "job"), "1 job");
  EXPECT_EQ(counted(2, "job"), "2 jobs");
  EXPECT_EQ(counted(-1, "job"), "-1 jobs");
  EXPECT_EQ(counted(21, "other run"), "21 other runs");
}

TEST(Counted, HasThePluralItIsGiven) {
  EXPECT_EQ(counted(0, "failed try", "failed tries"), "0 failed tries");
  EXPECT_EQ(counted(1, "process", "processes"), "1 process");
  EXPECT_EQ(counted(3, "process", "processes"), "3 processes");
  EXPECT_EQ(counted(2, "ok", "ok"), "2 ok");
}

TEST(Counted, HoldsTheLargestOfEachType) {
  EXPECT_EQ(counted(std::size_t{1}, "GPU"), "1 GPU");
  EXPECT_EQ(counted(std::numeric_limits<std::uint64_t>::max(), "GPU"), "18446744073709551615 GPUs");
  EXPECT_EQ(counted(std::numeric_limits<std::int64_t>::min(), "GPU"), "-9223372036854775808 GPUs");
}

}  // namespace
}  // namespace pergpu
