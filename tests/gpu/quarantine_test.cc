// Which GPUs are out of use, and what ends that (gpu/quarantine.h).
#include "gpu/quarantine.h"

#include <gtest/gtest.h>

namespace pergpu::gpu {
namespace {

const std::string kGpu = "GPU-a";

GpuLook healthy() {
  return {
      .complete = true,
      .gpus = {
          {.uuid = kGpu, .repair_pending = false, .repair_failed = false, .recovery_action = 0}}};
}
GpuLook pending() {
  GpuLook look = healthy();
  look.gpus[0].repair_pending = true;
  return look;
}
GpuLook advised(int action) {
  GpuLook look = healthy();
  look.gpus[0].recovery_action = action;
  return look;
}
GpuLook with_xid(std::int64_t number) {
  GpuLook look = healthy();
  look.xids = {{kGpu, number, 1}};
  return look;
}
using Uuids = std::vector<std::string>;

TEST(Quarantines, XidsOfTheHardwareBeginOneAndOthersDoNot) {
  for (const std::int64_t number : {48, 64, 74, 79, 94, 95, 119, 120}) {
    Quarantines all("boot-1");
    EXPECT_EQ(all.take(with_xid(number), 5), Uuids{kGpu}) << number;
    ASSERT_NE(all.of(kGpu), nullptr) << number;
    EXPECT_EQ(all.of(kGpu)->words, xid_words(number));
  }
  for (const std::int64_t number : {13, 31, 43, 45, 63, 78, 109, 154, 999}) {
    Quarantines all("boot-1");
    EXPECT_EQ(all.take(with_xid(number), 5), Uuids{}) << number;
    EXPECT_EQ(all.of(kGpu), nullptr) << number;
  }
}

TEST(Quarantines, AnXidCountsInALookThatFailed) {
  Quarantines all("boot-1");
  GpuLook look;
  look.xids = {{kGpu, 119, 1}};
  EXPECT_EQ(all.take(look, 5), Uuids{kGpu});
}

TEST(Quarantines, NoAnswerIsNeitherAFaultNorARecovery) {
  Quarantines all("boot-1");
  GpuLook look = healthy();
  look.gpus[0].health = GpuHealth::Unknown;
  EXPECT_EQ(all.take(look, 5), Uuids{});
  all.take(pending(), 6);
  EXPECT_EQ(all.take(look, 7), Uuids{});
  EXPECT_NE(all.of(kGpu), nullptr);
}

TEST(Quarantines, AResetThatShowsEndsWhatAResetHeals) {
  Quarantines all("boot-1");
  EXPECT_EQ(all.take(pending(), 5), Uuids{kGpu});
  EXPECT_EQ(all.take(pending(), 6), Uuids{}) << "nothing new";
  EXPECT_EQ(all.take(healthy(), 7), Uuids{kGpu});
  EXPECT_EQ(all.of(kGpu), nullptr);
}

TEST(Quarantines, AResetThatNothingShowsEndsNothing) {
  Quarantines all("boot-1");
  all.take(with_xid(119), 5);
  EXPECT_EQ(all.take(healthy(), 6), Uuids{});
  EXPECT_NE(all.of(kGpu), nullptr);
  // … but when the driver advised it, and does no more:
  all.take(advised(kRecoveryReset), 7);
  EXPECT_EQ(all.take(healthy(), 8), Uuids{kGpu});
}

TEST(Quarantines, WhatNeedsARebootEndsWithAnotherBootOnly) {
  Quarantines before("boot-1");
  GpuLook look = with_xid(79);
  look.gpus[0].health = GpuHealth::Lost;
  before.take(look, 5);
  before.take(healthy(), 6);
  ASSERT_NE(before.of(kGpu), nullptr);
  Quarantines after("boot-2");
  after.restore(kGpu, before.text(kGpu));
  EXPECT_EQ(*after.of(kGpu), *before.of(kGpu));
  after.take(look, 7);
  ASSERT_NE(after.of(kGpu), nullptr) << "not healthy";
  Quarantines last("boot-3");
  last.restore(kGpu, after.text(kGpu));
  EXPECT_EQ(last.take(healthy(), 8), Uuids{kGpu});
  EXPECT_EQ(last.of(kGpu), nullptr);
  EXPECT_EQ(last.text(kGpu), "");
}

TEST(Quarantines, ThatAreWorseAreNamedAndHoldLonger) {
  Quarantines all("boot-1");
  all.take(pending(), 5);
  all.take(with_xid(79), 6);
  EXPECT_NE(all.of(kGpu)->words.find("Xid 79"), std::string::npos);
  EXPECT_EQ(all.of(kGpu)->lift, Lift::Reboot);
  EXPECT_EQ(all.of(kGpu)->since_wall_ns, 5);
}

TEST(Quarantines, APersonsWordHoldsForWhatTheGpuStillHasUntilTheNextBoot) {
  Quarantines all("boot-1");
  all.take(pending(), 5);
  EXPECT_TRUE(all.release(kGpu));
  EXPECT_FALSE(all.release(kGpu));
  EXPECT_EQ(all.take(pending(), 6), Uuids{});
  EXPECT_EQ(all.counted(kGpu) & kRepairPending, 0u);
  Quarantines again("boot-1");
  again.restore(kGpu, all.text(kGpu));
  EXPECT_EQ(again.take(pending(), 7), Uuids{});
  EXPECT_EQ(again.take(with_xid(48), 8), Uuids{kGpu}) << "a new fault";
  Quarantines rebooted("boot-2");
  rebooted.restore(kGpu, all.text(kGpu));
  EXPECT_EQ(rebooted.take(pending(), 9), Uuids{kGpu});
}

TEST(Quarantines, WhatIsNotToldNeitherBeginsNorEndsOne) {
  GpuLook silent = healthy();
  silent.gpus[0].repair_pending.reset();
  silent.gpus[0].repair_failed.reset();
  silent.gpus[0].recovery_action.reset();
  Quarantines all("boot-1");
  EXPECT_EQ(all.take(silent, 5), Uuids{});
  all.take(pending(), 6);
  EXPECT_EQ(all.take(silent, 7), Uuids{});
  ASSERT_NE(all.of(kGpu), nullptr);
  Quarantines rebooted("boot-2");
  rebooted.restore(kGpu, all.text(kGpu));
  EXPECT_EQ(rebooted.take(silent, 8), Uuids{});
  EXPECT_EQ(rebooted.take(healthy(), 9), Uuids{kGpu});
  EXPECT_TRUE(all.release(kGpu));
  EXPECT_EQ(all.take(silent, 10), Uuids{});
  EXPECT_EQ(all.take(pending(), 11), Uuids{}) << "waived, and not told to be gone since";
}

TEST(Quarantines, WhatComesBackAfterARefusalToCountItIsNew) {
  Quarantines all("boot-1");
  all.take(pending(), 5);
  EXPECT_TRUE(all.release(kGpu));
  const std::string waived = all.text(kGpu);
  EXPECT_EQ(all.take(healthy(), 6), Uuids{kGpu}) << "to be stored";
  EXPECT_NE(all.text(kGpu), waived);
  EXPECT_EQ(all.take(pending(), 7), Uuids{kGpu});
  EXPECT_NE(all.of(kGpu), nullptr);
}

TEST(Quarantines, AWaivedAdviceHidesNoOther) {
  Quarantines before("boot-1");
  before.take(advised(kRecoveryReset), 5);
  EXPECT_TRUE(before.release(kGpu));
  Quarantines all("boot-1");
  all.restore(kGpu, before.text(kGpu));
  EXPECT_EQ(all.take(advised(kRecoveryReset), 6), Uuids{});
  EXPECT_EQ(all.take(advised(kRecoveryReboot), 7), Uuids{kGpu});
  ASSERT_NE(all.of(kGpu), nullptr);
  EXPECT_EQ(all.of(kGpu)->lift, Lift::Reboot);
}

TEST(Quarantines, AFaultThatOutlivesARebootNeedsAnother) {
  Quarantines before("boot-1");
  before.take(advised(kRecoveryReboot), 5);
  Quarantines after("boot-2");
  after.restore(kGpu, before.text(kGpu));
  EXPECT_EQ(after.take(advised(kRecoveryReboot), 6), Uuids{kGpu});
  EXPECT_EQ(after.take(healthy(), 7), Uuids{});
  EXPECT_NE(after.of(kGpu), nullptr);
}

TEST(Quarantines, ARebootEndsWhatWasBeforeAlsoWhereAnotherFaultIsSeenAfterIt) {
  Quarantines before("boot-1");
  before.take(with_xid(79), 5);
  Quarantines after("boot-2");
  after.restore(kGpu, before.text(kGpu));
  EXPECT_EQ(after.take(pending(), 6), Uuids{kGpu});
  EXPECT_EQ(after.of(kGpu)->lift, Lift::Reset);
  EXPECT_EQ(after.of(kGpu)->since_wall_ns, 5);
  EXPECT_EQ(after.take(healthy(), 7), Uuids{kGpu});
  EXPECT_EQ(after.of(kGpu), nullptr);
}

TEST(Quarantines, TextOfAnotherKindIsNone) {
  Quarantines all("boot-1");
  for (const char* text : {"", "7", "[]", "{", R"({"words":5})", R"({"waived":"x"})"}) {
    all.restore(kGpu, text);
    EXPECT_EQ(all.of(kGpu), nullptr) << text;
    EXPECT_EQ(all.counted(kGpu), ~0u) << text;
  }
}

}  // namespace
}  // namespace pergpu::gpu
