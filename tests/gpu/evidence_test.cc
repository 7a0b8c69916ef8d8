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
  return faults_of(look, history, {{"GPU-a", "gpu0", conditions}}, kStart);
}
GpuLook looked(GpuReading reading = {}) {
  reading.uuid = "GPU-a";
  return {.complete = true, .gpus = {std::move(reading)}};
}

TEST(AttemptFaults, AreTheXidsOfItsGpuFromItsStartToTheLookAtItsEnd) {
  for (const std::int64_t at : {kStart, kEnd, kEnd + 90 * kSecond}) {
    EXPECT_EQ(faults(looked(), {{"GPU-a", 79, at}}).hardware,
              "gpu0 reported Xid 79: the GPU has fallen off the bus");
  }
  EXPECT_EQ(faults(looked(), {{"GPU-a", 79, kStart - 1}}).hardware, "");
  EXPECT_EQ(faults(looked(), {{"GPU-b", 79, kEnd}}).hardware, "");
}

TEST(AttemptFaults, AreNotPushedOutByAStormOfOthers) {
  XidHistory history;
  history.take({.xids = {{"GPU-a", 79, kStart}}});
  for (int i = 0; i < 5000; ++i) {
    history.take({.xids = {{"GPU-b", 13, kStart + i}, {"GPU-a", 31, kStart + i}}});
  }
  EXPECT_EQ(history.since("GPU-a", kStart), (std::vector<std::int64_t>{31, 79}));
  EXPECT_EQ(history.since("GPU-b", kStart), std::vector<std::int64_t>{13});
  for (int number = 1000; number < 9000; ++number) {
    history.take({.xids = {{"GPU-a", number, kEnd}}});
  }
  EXPECT_LT(history.since("GPU-a", 0).size(), 1000u) << "a driver gone mad";
}

TEST(AttemptFaults, AreToldApartByWhoseTheyAre) {
  const AttemptFaults found =
      faults(looked(), {{"GPU-a", 31, kEnd}, {"GPU-a", 78, kEnd}, {"GPU-a", 31, kEnd}});
  EXPECT_EQ(found.hardware, "");
  EXPECT_NE(found.driver.find("Xid 78"), std::string::npos);
  EXPECT_EQ(found.notes, "gpu0 reported " + xid_words(31)) << "once";
}

TEST(AttemptFaults, OfASharedGpuTheErrorsOfProgramsCountWhenTheyAreRecent) {
  XidHistory history;
  history.take({.xids = {{"GPU-a", 79, kStart}, {"GPU-a", 31, kStart}}});
  const auto found = [&] {
    return faults_of(looked(), history, {{"GPU-a", "gpu0"}}, kStart, kEnd - 5 * kSecond);
  };
  EXPECT_NE(found().hardware.find("Xid 79"), std::string::npos) << "it's broken for all";
  EXPECT_EQ(found().notes, "") << "a neighbor's";
  history.take({.xids = {{"GPU-a", 31, kEnd}}});
  EXPECT_NE(found().notes.find("Xid 31"), std::string::npos);
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
