// What GPUs and their driver say about an attempt (gpu/evidence.h).
#include "gpu/evidence.h"

#include <gtest/gtest.h>

#include "gpu/health.h"

namespace pergpu::gpu {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kStart = 100 * kSecond;
constexpr std::int64_t kEnd = 200 * kSecond;

AttemptFaults faults(const GpuLook& look, std::vector<GpuXid> xids, unsigned conditions = ~0u) {
  XidHistory history;
  history.take({.xids = std::move(xids)});
  return faults_of(look, history, {{"GPU-a", "gpu0", conditions}}, kStart, kEnd);
}
GpuLook looked(GpuReading reading = {}) {
  reading.uuid = "GPU-a";
  return {.complete = true, .gpus = {std::move(reading)}};
}

TEST(AttemptFaults, AreTheXidsOfItsGpuFromItsStartToFiveSecondsAfterItsEnd) {
  for (const std::int64_t at : {kStart, kEnd, kEnd + 5 * kSecond}) {
    EXPECT_EQ(faults(looked(), {{"GPU-a", 79, at}}).hardware,
              "gpu0 reported Xid 79: the GPU has fallen off the bus");
  }
  for (const std::int64_t at : {kStart - 1, kEnd + 5 * kSecond + 1}) {
    EXPECT_EQ(faults(looked(), {{"GPU-a", 79, at}}).hardware, "");
  }
  EXPECT_EQ(faults(looked(), {{"GPU-b", 79, kEnd}}).hardware, "");
}

TEST(AttemptFaults, AreToldApartByWhoseTheyAre) {
  const AttemptFaults found =
      faults(looked(), {{"GPU-a", 31, kEnd}, {"GPU-a", 78, kEnd}, {"GPU-a", 31, kEnd}});
  EXPECT_EQ(found.hardware, "");
  EXPECT_NE(found.driver.find("Xid 78"), std::string::npos);
  EXPECT_EQ(found.notes, "gpu0 reported " + xid_words(31)) << "once";
}

TEST(AttemptFaults, AReadingCountsUnlessAPersonWaivedIt) {
  EXPECT_NE(faults(looked({.repair_pending = true}), {}).hardware, "");
  EXPECT_NE(faults(looked({.health = GpuHealth::Lost}), {}).hardware, "");
  EXPECT_EQ(faults(looked({.repair_pending = true}), {}, ~kRepairPending).hardware, "");
  EXPECT_EQ(faults(looked({.health = GpuHealth::Unknown}), {}).hardware, "");
}

TEST(AttemptFaults, ALookThatFailedInventsNothing) {
  const AttemptFaults found = faults({.why = "did not answer"}, {});
  EXPECT_EQ(found.hardware + found.driver + found.notes, "");
  EXPECT_NE(faults({.why = "did not answer"}, {{"GPU-a", 119, kEnd}}).hardware, "");
  EXPECT_EQ(faults({.why = "versions", .driver_mismatch = true}, {}).driver, "versions");
}

}  // namespace
}  // namespace pergpu::gpu
