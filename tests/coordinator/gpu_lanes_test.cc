// The life of GPU lanes, without jobs: what looks show is what lanes become.
#include "gpu/pool/gpu_lanes.h"

#include <sys/file.h>

#include <algorithm>

#include "lock_folder.h"
#include "simulation.h"

namespace pergpu::testing {
namespace {

struct GpuLanesTest : ::testing::Test {
  GpuLanesTest() : inventory(&shown, clock, sim_timers), timers(sim_timers.timers()) {
    shown.look.gpus = {gpu_reading(0), gpu_reading(1)};
    Result<std::unique_ptr<os::Loop>> made = os::Loop::create();
    loop = std::move(*made);
    lanes = std::make_unique<GpuLanes>(
        GpuLanes::Parts{.inventory = &inventory,
                        .loop = loop.get(),
                        .clock = &clock,
                        .timers = &timers,
                        .ours = [](const GpuProcess&) { return false; }});
  }

  void turn() {
    lanes->settle([this](const std::string&) { return is_wanted; });
  }
  void run_for(std::int64_t time_ns) {
    bool over = false;
    sim_timers.add(clock.now().boot_ns + time_ns, [&over] { over = true; });
    turn();
    while (!over) {
      sim_timers.step(clock);
      turn();
    }
  }
  void discover() {
    lanes->discover([this] { ++discoveries; });
    run_for(kSecond);
  }
  /// A job has ended, and its 8 GiB did not come back in the time that they get.
  void leave_memory_on_first() {
    discover();
    ASSERT_EQ(acquire(first), true);
    lanes->occupy(first, JobId{1}, {}, {});
    shown.look.gpus[0].used_bytes = 8ull << 30;
    lanes->vacate(first, JobId{1}, true);
    run_for(11 * kSecond);
  }
  LaneSnapshot shown_as(const std::string& uuid) {
    for (LaneSnapshot& lane : lanes->lanes()) {
      if (lane.uuid == uuid) return std::move(lane);
    }
    return {};
  }
  /// What the scheduler is told: "" when a job may be sent there.
  std::string busy(const std::string& uuid) {
    Capacity capacity;
    lanes->fill(capacity);
    auto gpu = std::find_if(capacity.gpus.begin(), capacity.gpus.end(),
                            [&](const GpuLane& one) { return one.uuid == uuid; });
    return gpu == capacity.gpus.end() ? "not there" : gpu->busy + gpu->outsiders;
  }
  std::optional<bool> acquire(const std::string& uuid, const Demand& demand = {}) {
    auto answer = std::make_shared<std::optional<bool>>();
    lanes->acquire({uuid}, JobId{9}, demand, {}, [answer](bool ready) { *answer = ready; });
    run_for(kSecond / 10);
    return *answer;
  }

  SimClock clock;
  SimTimers sim_timers;
  ShownGpus shown;
  SimInventory inventory;
  Timers timers;
  LockFolder locks;
  std::unique_ptr<os::Loop> loop;
  std::unique_ptr<GpuLanes> lanes;
  const std::string first = gpu_reading(0).uuid;
  const std::string second = gpu_reading(1).uuid;
  int discoveries = 0;
  bool is_wanted = false;
};

TEST_F(GpuLanesTest, AnAdoptedGpuThatTheDriverDoesNotListGetsNoJob) {
  shown.look.gpus = {gpu_reading(1)};
  lanes->occupy(first, JobId{1}, {}, {});
  EXPECT_FALSE(lanes->any());  // no look has shown it
  discover();
  EXPECT_TRUE(lanes->any());
  EXPECT_EQ(shown_as(first).state, "busy");
  lanes->vacate(first, JobId{1}, true);
  run_for(kSecond);
  EXPECT_EQ(shown_as(first).state, "unusable");
  EXPECT_EQ(shown_as(first).why, "the driver doesn't list it");
  EXPECT_EQ(busy(first), "the driver doesn't list it");
  EXPECT_EQ(busy(second), "");
  run_for(20 * kSecond);
  EXPECT_EQ(acquire(first), false);
}

TEST_F(GpuLanesTest, AGpuThatIsNotListedAnyMoreIsClosedUntilItIs) {
  discover();
  shown.look.gpus = {gpu_reading(0)};
  EXPECT_EQ(acquire(first), true);
  EXPECT_EQ(shown_as(second).why, "the driver doesn't list it");
  EXPECT_NE(busy(second), "");
  shown.look.gpus = {gpu_reading(0), gpu_reading(1)};
  run_for(20 * kSecond);
  EXPECT_EQ(acquire(second), true);
  EXPECT_EQ(discoveries, 2);  // devices are chosen anew
}

TEST_F(GpuLanesTest, AJobIsAnsweredWhenItsGpuGoesToAnotherUserInTurn) {
  leave_memory_on_first();
  ASSERT_EQ(shown_as(first).state, "dirty");
  const gpu::LeaseFolder other = locks.other_user();
  Result<os::UniqueFd> wanted = other.open_wanted(first);
  ASSERT_TRUE(wanted);
  ASSERT_EQ(::flock(wanted->get(), LOCK_SH | LOCK_NB), 0);  // they wait for it
  while (busy(first) != "") sim_timers.step(clock);         // may be tried again
  shown.look.gpus[0].used_bytes = 0;
  EXPECT_EQ(acquire(first), false);
  EXPECT_TRUE(other.take(first));
}

TEST_F(GpuLanesTest, AGpuIsShownWithWhatIsLeftOnItUntilALookFindsItClean) {
  leave_memory_on_first();
  shown.looks = 0;
  for (int minute = 0; minute < 10; ++minute) {
    EXPECT_EQ(shown_as(first).state, "dirty");
    EXPECT_NE(shown_as(first).why.find("8.0 GiB"), std::string::npos) << shown_as(first).why;
    run_for(60 * kSecond);
  }
  EXPECT_LE(shown.looks, 16);  // after 2, 4, 8, 16, 32, 64, 64 … s
  EXPECT_GE(shown.looks, 10);
  EXPECT_EQ(busy(second), "");
  // Sooner while a job waits for it.
  is_wanted = true;
  shown.looks = 0;
  run_for(60 * kSecond);
  EXPECT_GE(shown.looks, 25);
  shown.look.gpus[0].used_bytes = 0;
  run_for(3 * kSecond);
  EXPECT_EQ(shown_as(first).state, "free");
  const int looks = shown.looks;
  run_for(60 * kSecond);
  EXPECT_EQ(shown.looks, looks);  // a clean one is not looked at until a job comes
}

TEST_F(GpuLanesTest, BesideOthersAJobStartsWhereThereIsRoomAtTheLastMoment) {
  shown.look.gpus[0].processes = {foreign_process()};
  shown.look.gpus[0].used_bytes = 60ull << 30;
  discover();
  const Demand fits{.outsiders = Outsiders::Fit, .gpu_memory_bytes = 16ull << 30};
  EXPECT_EQ(acquire(first, fits), true);
  run_for(kSecond);
  shown.look.gpus[0].used_bytes = 70ull << 30;  // since the last look
  EXPECT_EQ(acquire(first, fits), false);
  EXPECT_EQ(shown_as(first).state, "foreign");
  Capacity capacity;
  lanes->fill(capacity);
  EXPECT_EQ(capacity.gpus[0].free_bytes, 10ull << 30);
  EXPECT_TRUE(is_kept_off(fits, capacity.gpus[0]));
}

TEST_F(GpuLanesTest, AGpuThatIsReadyForAJobThatIgnoresOutsidersIsLookedAtForOneThatDoesNot) {
  shown.look.gpus[0].processes = {foreign_process()};
  discover();
  ASSERT_EQ(acquire(first, {.outsiders = Outsiders::Ignore}), true);
  lanes->occupy(first, JobId{1}, {}, {});
  lanes->vacate(first, JobId{1}, true);
  std::optional<bool> is_ready;
  while (!is_ready) {
    sim_timers.step(clock);
    if (busy(first).empty()) {  // the lease is still there
      lanes->acquire({first}, JobId{2}, {}, {}, [&](bool ready) { is_ready = ready; });
    }
  }
  EXPECT_EQ(is_ready, false);
}

}  // namespace
}  // namespace pergpu::testing
