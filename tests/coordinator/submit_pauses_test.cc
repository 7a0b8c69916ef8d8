#include "slurm/submit_pauses.h"

#include <gtest/gtest.h>

#include "timers.h"

namespace pergpu {
namespace {

constexpr SweepId kOne{1};
constexpr SweepId kOther{2};

TEST(SubmitPauses, OneThatIsRefusedKeepsNoOtherBack) {
  SubmitPauses pauses;
  pauses.refused(kOne, "sbatch says: no", 100 * kSecond);
  EXPECT_EQ(pauses.next_ns(kOne), 105 * kSecond);
  EXPECT_LE(pauses.next_ns(kOther), 100 * kSecond);
  EXPECT_EQ(pauses.words(kOne), "sbatch says: no");
  EXPECT_EQ(pauses.words(kOther), "");
}

TEST(SubmitPauses, AreTwiceAsLongEachTimeUpToTwoMinutes) {
  SubmitPauses pauses;
  std::int64_t now = 0;
  for (const std::int64_t seconds : {5, 10, 20, 40, 80, 120, 120}) {
    pauses.refused(kOne, "", now);
    EXPECT_EQ(pauses.next_ns(kOne), now + seconds * kSecond);
    now = pauses.next_ns(kOne);
  }
  pauses.taken(kOne, 1000);
  EXPECT_LE(pauses.next_ns(kOne), now);
  pauses.refused(kOne, "", now);
  EXPECT_EQ(pauses.next_ns(kOne), now + 5 * kSecond);
}

TEST(SubmitPauses, AfterWhatWasTooLongComesHalfOfItAndGrowsAgain) {
  SubmitPauses pauses;
  pauses.had_too_many(kOne, 100);
  EXPECT_EQ(pauses.most_tasks(kOne), 50);
  EXPECT_EQ(pauses.most_tasks(kOther), 0);
  pauses.had_too_many(kOne, 1);
  EXPECT_EQ(pauses.most_tasks(kOne), 1);
  pauses.taken(kOne, 4);
  EXPECT_EQ(pauses.most_tasks(kOne), 2);
  pauses.taken(kOne, 4);
  EXPECT_EQ(pauses.most_tasks(kOne), 0);
}

TEST(SubmitPauses, NobodyAsksWhoWasNotHeard) {
  SubmitPauses pauses;
  pauses.unheard(100 * kSecond);
  EXPECT_EQ(pauses.next_ns(kOne), 105 * kSecond);
  EXPECT_EQ(pauses.next_ns(kOther), 105 * kSecond);
  pauses.unheard(105 * kSecond);
  EXPECT_EQ(pauses.next_ns(kOther), 115 * kSecond);
  pauses.taken(kOther, 1000);
  EXPECT_LE(pauses.next_ns(kOne), 105 * kSecond);
}

}  // namespace
}  // namespace pergpu
