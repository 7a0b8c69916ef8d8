// Which sweeps wait for a disk, and who tries: with looks that the test answers.
#include "coordinator/storage_waits.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "job/not_started.h"
#include "simulation.h"

namespace pergpu::testing {
namespace {

/// The waits alone, with looks that the test answers.
struct LookTest : ::testing::Test {
  LookTest() : sim(store, clock) {
    for (const char* name : {"a", "b"}) {
      SweepSpec sweep = sweep_of(name, 3);
      sweep.steps.push_back(step_of("main", "1000s", "0"));
      EXPECT_TRUE(sim.submit(std::move(sweep)));
    }
    waits = std::make_unique<StorageWaits>(StorageWaits::Parts{
        .world = &sim.world,
        .clock = &clock,
        .timers = sim.timers.get(),
        .look = [this](const std::string&,
                       StorageWaits::Found f) { looks.push_back(std::move(f)); },
        .look_at_root = [this](SweepId,
                               StorageWaits::Found f) { looks_at_roots.push_back(std::move(f)); },
        .pause = [this](StepKey key, bool pauses) { paused[key.sweep.value] = pauses; },
        .has_ready =
            [this](StepKey key) {
              return std::ranges::any_of(sim.world.jobs(), [&](const Job& job) {
                return job.sweep == key.sweep && !waits->holds(job.id);
              });
            },
        .is_ready = [](JobId) { return true; },
        .is_starting = [](JobId) { return true; },
        .freed = [](JobId) {},
        .changed = [](SweepId) {},
        .lasts = [](SweepId) {}});
  }
  void refuse(std::int64_t job) {
    waits->add(sim.job(job), SpawnFailure{"mkdir", ENOSPC, "/data/out/x"});
  }
  void answer(int code, std::uint64_t device) {
    sim.run([&] { return !looks.empty(); });
    ASSERT_FALSE(looks.empty());
    StorageWaits::Found found = std::move(looks.front());
    looks.erase(looks.begin());
    found({.os_errno = code, .device = device});
    waits->settle();
  }
  MemoryStore store;
  SimClock clock;
  Simulation sim;
  std::unique_ptr<StorageWaits> waits;
  std::vector<StorageWaits::Found> looks;
  std::vector<StorageWaits::Found> looks_at_roots;
  std::map<std::int64_t, bool> paused;
};

TEST_F(LookTest, NothingIsStartedBeforeALookSaysThatItWorks) {
  refuse(1);
  EXPECT_TRUE(paused[1]);
  EXPECT_FALSE(paused[2]) << "another sweep, whose disk may be another one";
  for (int i = 0; i < 5; ++i) {
    answer(ENOSPC, 7);
    EXPECT_TRUE(paused[1]);
  }
  answer(0, 7);
  EXPECT_FALSE(paused[1]);
  waits->on_start({1});
  EXPECT_TRUE(paused[1]) << "one tries, the others wait for it";
}

TEST_F(LookTest, SweepsOnOneFileSystemAreTriedEachForItself) {
  refuse(1);
  refuse(4);
  answer(ENOSPC, 7);
  answer(ENOSPC, 7);
  sim.run_for(60 * kSecond);
  EXPECT_EQ(looks.size(), 1u) << "one look at a time goes to a file system";
  answer(0, 7);
  EXPECT_NE(paused[1], paused[2]);
  answer(0, 7);
  EXPECT_FALSE(paused[1]);
  EXPECT_FALSE(paused[2]);
  waits->on_start({4});
  EXPECT_FALSE(paused[1]);
  EXPECT_TRUE(paused[2]);
}

TEST_F(LookTest, ARootThatWasReplacedKeepsNoOtherSweepOfItsFileSystem) {
  refuse(1);
  refuse(4);
  for (int i = 0; i < 2; ++i) answer(0, 7);
  waits->on_start({1});
  waits->add(sim.job(1), SpawnFailure{std::string(kRootReplacedPhase), ESTALE, "/data/out"});
  waits->settle();
  EXPECT_TRUE(paused[1]);
  EXPECT_FALSE(paused[2]);
  EXPECT_EQ(waits->words(sim.job(5)).find("another folder"), std::string::npos);
}

TEST_F(LookTest, AnotherJobThanTheOneThatFailedTries) {
  refuse(1);
  answer(0, 7);
  EXPECT_TRUE(waits->holds({1}));
  waits->on_start({2});
  refuse(2);
  answer(0, 7);
  EXPECT_TRUE(waits->holds({1}));
  EXPECT_TRUE(waits->holds({2}));
  waits->on_start({3});
  refuse(3);
  answer(0, 7);
  EXPECT_FALSE(waits->holds({1})) << "there is no other one";
  EXPECT_TRUE(waits->holds({2}));
}

TEST_F(LookTest, ARootThatWasReplacedIsWaitedForByName) {
  waits->add(sim.job(1), SpawnFailure{std::string(kRootReplacedPhase), ESTALE, "/data/out"});
  EXPECT_TRUE(paused[1]);
  EXPECT_NE(
      waits->words(SweepId{1}).find("/data/out isn't the folder that holds this sweep's results"),
      std::string::npos);
  for (const int code : {ESTALE, 0}) {
    EXPECT_TRUE(paused[1]);
    sim.run([&] { return !looks_at_roots.empty(); });
    std::exchange(looks_at_roots, {}).front()({.os_errno = code});
    waits->settle();
  }
  EXPECT_FALSE(paused[1]);
  EXPECT_TRUE(looks.empty()) << "that it can be written to says nothing";
}

TEST_F(LookTest, StartsThatLooksDidNotForetellFailLessAndLessOften) {
  refuse(1);
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < 12; ++i) {
    const std::int64_t before = clock.now().boot_ns;
    answer(0, 7);
    const std::int64_t took = clock.now().boot_ns - before;
    EXPECT_GE(took, last);
    EXPECT_LE(took, 300 * kSecond);
    last = took;
    const std::int64_t tries = 1 + (i + 1) % 3;
    waits->on_start({tries});
    refuse(tries);
  }
  EXPECT_EQ(last, 300 * kSecond);
}

TEST(LookTurns, OneLookAtATimeGoesToAFileSystem) {
  LookTurns turns;
  std::vector<int> begun;
  for (int i = 0; i < 3; ++i) turns.ask(7, [&](int turn) { begun.push_back(turn); });
  turns.ask(8, [&](int turn) { begun.push_back(turn); });
  EXPECT_EQ(begun.size(), 2u) << "one on each";
  turns.end(begun[0]);
  EXPECT_EQ(begun.size(), 3u);
}

TEST(LookTurns, FewLooksHangHoweverManyDisksDo) {
  LookTurns turns;
  std::vector<int> begun;
  for (int i = 0; i < 40; ++i) turns.ask(0, [&](int turn) { begun.push_back(turn); });
  EXPECT_EQ(begun.size(), 8u);
  for (std::size_t i = 0; i < begun.size(); ++i) turns.end(begun[i]);
  EXPECT_EQ(begun.size(), 40u);
}

}  // namespace
}  // namespace pergpu::testing
