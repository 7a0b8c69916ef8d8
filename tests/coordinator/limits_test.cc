// What ends an attempt before it ends by itself: signals ahead, over the fake engine.
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

}  // namespace
}  // namespace pergpu::testing
