// What runs that failed have in common.
#include "job/schedule/failure_pattern.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace pergpu {
namespace {

using Run = std::vector<ParameterMark>;

Run run(std::uint32_t method, std::uint32_t lr, std::uint32_t seed) {
  return {{1, method}, {2, lr}, {3, seed}};
}

TEST(FailurePattern, BlamesWhatAllFailedRunsHaveAndNoOtherHas) {
  FailurePattern pattern;
  for (std::uint32_t seed = 0; seed < 3; ++seed) pattern.add_failure(run(7, 5, seed));
  EXPECT_EQ(pattern.blamed(), (std::set<ParameterMark>{{1, 7}, {2, 5}}));
  pattern.add_success(run(7, 6, 0));
  EXPECT_EQ(pattern.blamed(), (std::set<ParameterMark>{{2, 5}}));
  EXPECT_TRUE(pattern.is_suspect(run(1, 5, 9)));
  EXPECT_FALSE(pattern.is_suspect(run(7, 6, 0)));
  EXPECT_EQ(pattern.failures(), 3U);
}

TEST(FailurePattern, ARunThatHasOnlySomeOfTheBlamedValuesIsSuspectButNotAlike) {
  FailurePattern pattern;
  for (std::uint32_t seed = 0; seed < 3; ++seed) pattern.add_failure(run(7, 5, seed));
  EXPECT_TRUE(pattern.is_suspect(run(7, 6, 9)));
  EXPECT_FALSE(pattern.is_alike(run(7, 6, 9)));
  EXPECT_TRUE(pattern.is_alike(run(7, 5, 9)));
}

TEST(FailurePattern, TwoValuesThatFailAreBothBlamed) {
  FailurePattern pattern;
  for (std::uint32_t seed = 0; seed < 3; ++seed) {
    pattern.add_failure(run(7, 1, seed));
    pattern.add_failure(run(7, 2, seed));
  }
  pattern.add_success(run(7, 3, 0));
  for (std::uint32_t lr = 1; lr < 3; ++lr) {
    EXPECT_TRUE(pattern.is_suspect(run(7, lr, 9))) << lr;
    EXPECT_TRUE(pattern.is_alike(run(7, lr, 9))) << lr;
  }
  EXPECT_FALSE(pattern.is_suspect(run(7, 3, 9)));
  EXPECT_FALSE(pattern.is_suspect(run(7, 4, 0)));
}

TEST(FailurePattern, NothingIsBlamedBeforeAFailureOrWithoutParameters) {
  FailurePattern pattern;
  EXPECT_FALSE(pattern.is_suspect(run(1, 2, 3)));
  EXPECT_FALSE(pattern.is_alike({}));
  pattern.add_failure({});
  EXPECT_FALSE(pattern.is_suspect(run(1, 2, 3)));
  EXPECT_FALSE(pattern.is_alike(run(1, 2, 3)));
}

TEST(FailurePattern, LikenessCountsSharedValues) {
  FailurePattern pattern;
  pattern.add_failure(run(1, 1, 1));
  pattern.add_failure(run(1, 2, 1));
  EXPECT_EQ(pattern.likeness(run(1, 1, 1)), 5U);
  EXPECT_EQ(pattern.likeness(run(1, 3, 3)), 2U);
  EXPECT_EQ(pattern.likeness(run(3, 3, 3)), 0U);
}

RC_GTEST_PROP(FailurePattern, NeverClearsTheOneValueThatFailsNorBlamesARunThatSucceeded, ()) {
  const auto value = [] { return *rc::gen::inRange<std::uint32_t>(0, 3); };
  FailurePattern pattern;
  const int runs = *rc::gen::inRange(1, 40);
  for (int i = 0; i < runs; ++i) {
    const Run one = run(value(), value(), value());
    if (one[0].value == 0) {
      pattern.add_failure(one);
    } else {
      pattern.add_success(one);
      RC_ASSERT(!pattern.is_suspect(one));
    }
    RC_ASSERT(pattern.failures() == 0 || pattern.is_suspect(run(0, 9, 9)));
  }
}

}  // namespace
}  // namespace pergpu
