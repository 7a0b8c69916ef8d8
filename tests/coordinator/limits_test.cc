// What ends an attempt before it ends by itself: signals ahead, silence, over the fake engine.
#include "lock_folder.h"
#include "simulation.h"

namespace pergpu::testing {
namespace {

struct LimitsTest : ::testing::Test {
  MemoryStore store;
  SimClock clock;

  static SweepSpec one_job(const std::string& duration) {
    SweepSpec sweep = sweep_of("limits", 1);
    sweep.steps.push_back(step_of("main", duration));
    return sweep;
  }
  static SweepSpec with_signal(const std::string& duration) {
    SweepSpec sweep = one_job(duration);
    sweep.steps[0].timeout = std::chrono::seconds(100);
    sweep.steps[0].signal = {.number = 10, .ahead = std::chrono::seconds(30)};
    return sweep;
  }
  static bool runs(Simulation& sim) { return sim.job(1).state == JobState::Running; }
};

TEST_F(LimitsTest, TheSignalComesAheadOfTheTimeout) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(with_signal("1000s")));
  sim.run();
  ASSERT_EQ(sim.engine->signalled().size(), 1u);
  const auto& sent = sim.engine->signalled().front();
  EXPECT_EQ(sent.number, 10);
  EXPECT_EQ(sent.boot_ns - sim.job(1).last->started_at.boot_ns, 70 * kSecond);
  EXPECT_EQ(sim.job(1).state, JobState::Timeout);
  EXPECT_EQ(sim.job(1).last->stop_at.boot_ns - sim.job(1).last->started_at.boot_ns, 100 * kSecond);
}

TEST_F(LimitsTest, AJobThatEndsInTimeGetsNoSignal) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(with_signal("10s")));
  sim.run();
  EXPECT_EQ(sim.job(1).state, JobState::Done);
  EXPECT_TRUE(sim.engine->signalled().empty());
  EXPECT_TRUE(sim.sim_timers.empty());
}

TEST_F(LimitsTest, ACancelSendsTheSignalAndWaitsBeforeItStops) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(with_signal("1000s")));
  sim.run([&] { return runs(sim); });
  const std::int64_t cancelled_at = clock.now().boot_ns;
  sim.core->cancel({JobId{1}}, false, "cancelled by hand");
  sim.turn();
  EXPECT_EQ(sim.engine->signalled().size(), 1u);
  EXPECT_EQ(sim.job(1).state, JobState::Stopping);
  sim.core->cancel({JobId{1}}, false, "cancelled by hand");  // cuts nothing short
  sim.turn();
  sim.run();
  EXPECT_EQ(sim.job(1).state, JobState::Cancelled);
  EXPECT_EQ(sim.job(1).last->ended_at.boot_ns - cancelled_at, 30 * kSecond);
  EXPECT_EQ(sim.engine->signalled().size(), 1u);
}

TEST_F(LimitsTest, AKillWaitsForNothing) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(with_signal("1000s")));
  sim.run([&] { return runs(sim); });
  const std::int64_t cancelled_at = clock.now().boot_ns;
  sim.core->cancel({JobId{1}}, false, "cancelled by hand");
  sim.turn();
  sim.core->cancel({JobId{1}}, true, "killed by hand");
  sim.run();
  EXPECT_EQ(sim.job(1).state, JobState::Cancelled);
  EXPECT_EQ(sim.job(1).last->ended_at.boot_ns, cancelled_at);
}

TEST_F(LimitsTest, ACancelOfAJobThatIsBeingStoppedForItsTimeoutIsObeyed) {
  Simulation sim(store, clock);
  SweepSpec sweep = one_job("1000s");
  sweep.steps[0].timeout = std::chrono::seconds(100);
  sweep.steps[0].retries = {.max = 3};
  ASSERT_TRUE(sim.submit(sweep));
  sim.run([&] { return runs(sim); });
  while (runs(sim)) sim.sim_timers.step(clock);
  ASSERT_EQ(sim.job(1).state, JobState::Stopping) << "for its timeout, and not yet told to";
  EXPECT_EQ(sim.core->cancel({JobId{1}}, false, "cancelled by hand").changed.size(), 1u);
  sim.run();
  EXPECT_EQ(sim.job(1).state, JobState::Cancelled);
  EXPECT_EQ(sim.job(1).attempts, 1);
}

TEST_F(LimitsTest, WhoeverIsToBeKilledAtOnceIsSoAfterARestartToo) {
  for (const bool at_once : {false, true}) {
    store.clear();
    {
      Simulation sim(store, clock);
      ASSERT_TRUE(sim.submit(with_signal("1000s")));
      sim.run([&] { return runs(sim); });
      clock.ns += kSecond;
      sim.core->cancel({JobId{1}}, at_once, "cancelled by hand");
      sim.turn();
    }
    Simulation sim(store, clock);
    sim.core->on_engine(engine_event::Started{.id = {{1}, 1}, .pid = 1});
    sim.run();
    EXPECT_EQ(sim.job(1).state, JobState::Cancelled);
    EXPECT_EQ(sim.engine->signalled().size(), at_once ? 0u : 1u);
  }
}

TEST_F(LimitsTest, ACoordinatorThatEndsAllJobsWaitsForNoSignal) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(with_signal("1000s")));
  sim.run([&] { return runs(sim); });
  const std::int64_t cancelled_at = clock.now().boot_ns;
  sim.core->cancel({JobId{1}}, false, "cancelled by hand");
  sim.turn();
  sim.core->start_nothing_more();
  sim.core->stop_all(StopCause::Cancel, "the coordinator was stopped with its jobs");
  sim.run();
  EXPECT_EQ(sim.job(1).state, JobState::Cancelled);
  EXPECT_EQ(sim.job(1).last->ended_at.boot_ns, cancelled_at);
}

TEST_F(LimitsTest, ATimeoutCutsTheWaitOfACancelShort) {
  Simulation sim(store, clock);
  SweepSpec sweep = with_signal("1000s");
  ASSERT_TRUE(sim.submit(sweep));
  sim.run([&] { return !sim.engine->signalled().empty(); });  // 30 s are left
  clock.ns += 10 * kSecond;
  sim.core->cancel({JobId{1}}, false, "cancelled by hand");
  sim.run();
  EXPECT_EQ(sim.job(1).state, JobState::Cancelled);
  EXPECT_EQ(sim.job(1).last->ended_at.boot_ns - sim.job(1).last->started_at.boot_ns, 100 * kSecond);
  EXPECT_EQ(sim.engine->signalled().size(), 1u);
}

TEST_F(LimitsTest, AJobWithoutOutputIsEndedAsStalledAndTriedAgain) {
  Simulation sim(store, clock);
  SweepSpec sweep = one_job("1000s");
  sweep.steps[0].retries = {.max = 1};
  ASSERT_TRUE(sim.submit(sweep));
  for (int attempt = 1; attempt <= 2; ++attempt) {
    sim.run([&] { return runs(sim) && sim.job(1).attempts == attempt; });
    sim.core->on_engine(engine_event::Quiet{.id = {{1}, attempt}, .silent_ns = 1800 * kSecond});
    sim.turn();
  }
  sim.run();
  EXPECT_EQ(sim.job(1).state, JobState::Failed);
  EXPECT_EQ(sim.job(1).last->outcome->cls, OutcomeClass::Stall);
  EXPECT_EQ(sim.job(1).last->outcome->reason, "no output for 30m (idle_timeout)");
  EXPECT_EQ(sim.job(1).attempts, 2);
}

TEST_F(LimitsTest, AStalledJobIsEndedAfterItsStacks) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(one_job("1000s")));
  sim.run([&] { return runs(sim); });
  const engine_event::Quiet quiet{
      .id = {{1}, 1}, .is_stall = true, .silent_ns = 2700 * kSecond, .cpu_ns = kSecond};
  sim.core->on_engine(quiet);
  sim.core->on_engine(quiet);  // said twice, judged once
  EXPECT_EQ(sim.job(1).state, JobState::Running);
  sim.run();
  EXPECT_EQ(sim.job(1).last->outcome->cls, OutcomeClass::Stall);
  EXPECT_EQ(sim.job(1).last->outcome->reason,
            "no output for 45m, 1s of CPU time (stall); couldn't write its stacks");
}

struct StallOnGpu : LimitsTest {
  LockFolder locks;
  ShownGpus shown;
  /// What becomes of a quiet job whose GPU shows this, and this from the third look on.
  JobState state_with(std::optional<int> utilization, std::optional<int> later) {
    return run(utilization, [&] { shown.look.gpus[0].utilization = later; });
  }
  /// The same, and `later` is what happens at the third look.
  JobState run(std::optional<int> utilization, const std::function<void()>& later) {
    shown.look.gpus = {gpu_reading(0)};
    shown.look.gpus[0].utilization = utilization;
    Simulation sim(store, clock, "boot-1", {.cores = {0, 1}, .memory_bytes = 64ull << 30}, &shown);
    SweepSpec sweep = one_job("1000s");
    sweep.steps[0].gpus = 1;
    sim.run([&] { return sim.gpus->discovered(); });
    EXPECT_TRUE(sim.submit(sweep));
    sim.run([&] { return runs(sim); });
    const int looks = shown.looks;
    sim.core->on_engine(engine_event::Quiet{.id = {{1}, 1}, .is_stall = true});
    bool is_later = false;
    sim.run([&] {
      if (shown.looks >= looks + 3 && !std::exchange(is_later, true)) later();
      return sim.job(1).last->outcome.has_value();
    });
    outcome = *sim.job(1).last->outcome;
    retries_used = sim.job(1).retries_used;
    const JobState state = sim.job(1).state;
    bool is_over = false;
    sim.sim_timers.add(clock.now().boot_ns + kSecond, [&] { is_over = true; });
    sim.run([&] { return is_over; });
    quarantined = sim.gpus->lanes()[0].state == "quarantined";
    return state;
  }
  Outcome outcome;
  int retries_used = 0;
  bool quarantined = false;
};

TEST_F(StallOnGpu, IsOneWhereEveryLookShowsItIdle) {
  EXPECT_EQ(state_with(0, 0), JobState::Failed);
}
TEST_F(StallOnGpu, IsNoneWhereItWorks) { EXPECT_EQ(state_with(100, 100), JobState::Done); }
TEST_F(StallOnGpu, IsNoneWhereALaterLookShowsWork) { EXPECT_EQ(state_with(0, 5), JobState::Done); }
TEST_F(StallOnGpu, IsOneWhereItsGpuIsLostAndIsTheMachinesFault) {
  EXPECT_EQ(run(0, [&] { shown.look.gpus[0].health = GpuHealth::Lost; }), JobState::Queued);
  EXPECT_EQ(outcome.cls, OutcomeClass::Hardware);
  EXPECT_NE(outcome.reason.find("(stall); couldn't write its stacks; gpu0: "), std::string::npos)
      << outcome.reason;
  EXPECT_EQ(retries_used, 0);
  EXPECT_TRUE(quarantined);
}
TEST_F(StallOnGpu, IsOneWhereItsGpuHasReportedAnErrorOfTheHardware) {
  const std::string uuid = gpu_reading(0).uuid;
  EXPECT_EQ(
      run(0,
          [&] {
            shown.look = {.why = "did not answer", .xids = {{uuid, 119, clock.now().boot_ns}}};
          }),
      JobState::Queued);
  EXPECT_EQ(outcome.cls, OutcomeClass::Hardware);
  EXPECT_TRUE(quarantined) << "a look of a stall's is a look like any other";
}
TEST_F(StallOnGpu, IsNoneWhereItsMemoryOnlyWaitsForARepair) {
  EXPECT_EQ(run(0,
                [&] {
                  shown.look.gpus[0].utilization = 100;
                  shown.look.gpus[0].repair_pending = true;
                }),
            JobState::Done);
}
TEST_F(StallOnGpu, IsNoneWhereNvmlDoesNotTell) {
  EXPECT_EQ(state_with(std::nullopt, std::nullopt), JobState::Done);
}

/// A node's coordinator, over jobs that fail after ten seconds.
struct NodeTest : LimitsTest {
  Simulation sim{store,   clock, "boot-1", {.cores = {0, 1}, .memory_bytes = 1ull << 30},
                 nullptr, "n0"};
  NodeTest() {
    SweepSpec sweep = one_job("10s");
    sweep.steps[0].fake.exit = "143";
    EXPECT_TRUE(sim.submit(sweep));
    sim.run([&] { return runs(sim); });
    sim.run_for(10 * kSecond + kMillisecond);
  }
};

TEST_F(NodeTest, WhatTheEndOfItsAllocationKilledFirstHasNotFailed) {
  EXPECT_EQ(sim.job(1).state, JobState::Running) << "the same signal may be on its way here";
  sim.core->start_nothing_more();
  sim.core->stop_all(StopCause::Cancel, "the cluster ends the allocation");
  sim.run();
  EXPECT_EQ(sim.job(1).state, JobState::Cancelled);
  EXPECT_EQ(sim.job(1).last->outcome->reason, "the cluster ends the allocation");
}

TEST_F(NodeTest, WhatFailedByItselfIsToldMomentsLater) {
  EXPECT_EQ(sim.job(1).state, JobState::Running);
  const std::int64_t ended_at = clock.now().boot_ns;
  sim.run();
  EXPECT_EQ(sim.job(1).state, JobState::Failed);
  EXPECT_LE(clock.now().boot_ns - ended_at, 2 * kSecond);
}

}  // namespace
}  // namespace pergpu::testing
