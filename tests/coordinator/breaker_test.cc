// The breaker over steps of more jobs than one turn of the loop holds or lets go.
#include <fmt/format.h>

#include <algorithm>

#include "simulation.h"

namespace pergpu::testing {
namespace {

constexpr int kRuns = 2000;

struct BreakerTest : ::testing::Test {
  /// Exit code 2 is a user error.
  static SweepSpec one_step() {
    SweepSpec sweep = sweep_of("breaking", kRuns);
    sweep.steps.push_back(step_of("main", "1s", "2"));
    return sweep;
  }
  MemoryStore store;
  SimClock clock;
};

TEST_F(BreakerTest, HoldsTheRestInManyTurnsAndStartsNoneMeanwhile) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(one_step()));
  sim.run();
  EXPECT_EQ(sim.count(JobState::Failed), 6)
      << "four, and two that the first failures made room for";
  EXPECT_EQ(sim.count(JobState::Held), kRuns - 6);
  EXPECT_TRUE(sim.core->idle());
}

TEST_F(BreakerTest, HoldsAJobThatWouldBeTriedAgain) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(one_step()));
  sim.run([&] { return sim.count(JobState::Failed) == 3; });
  ASSERT_EQ(sim.count(JobState::Running), 1);
  const Job& lost = *std::find_if(sim.world.jobs().begin(), sim.world.jobs().end(),
                                  [](const Job& job) { return job.state == JobState::Running; });
  sim.core->on_engine(
      engine_event::Lost{.id = {lost.id, 1}, .why = "its keeper was killed", .proven_gone = true});
  sim.run();
  EXPECT_EQ(lost.state, JobState::Held);
  EXPECT_EQ(lost.attempts, 1);
}

TEST_F(BreakerTest, ARestartInTheMiddleOfHoldingGoesOnAtTheNextMistake) {
  {
    Simulation sim(store, clock);
    ASSERT_TRUE(sim.submit(one_step()));
    sim.run([&] { return sim.count(JobState::Held) > 0; });
    ASSERT_LT(sim.count(JobState::Held), kRuns - 4);
  }
  Simulation sim(store, clock);
  sim.run();
  EXPECT_EQ(sim.count(JobState::Held) + sim.count(JobState::Failed), kRuns);
  EXPECT_LE(sim.count(JobState::Failed), 12);
}

TEST_F(BreakerTest, LetsAllGoWhenOneSucceedsAlsoOverARestart) {
  SweepSpec sweep = one_step();
  sweep.columns = {"exit", "seconds"};
  sweep.steps[0].fake = {.duration = "{seconds}s", .exit = "{exit}"};
  for (int i = 0; i < kRuns; ++i) {
    const bool fails = i >= 1 && i <= 3;
    sweep.runs[static_cast<std::size_t>(i)].json =
        fmt::format("{{\"exit\":{},\"seconds\":{}}}", fails ? 2 : 0, fails ? 1 : 50);
  }
  {
    Simulation sim(store, clock);
    ASSERT_TRUE(sim.submit(sweep));
    sim.run([&] { return sim.count(JobState::Done) == 1; });
    ASSERT_EQ(sim.count(JobState::Failed), 3);
    ASSERT_GT(sim.count(JobState::Held), 0) << "not all are let go in one turn";
  }
  Simulation sim(store, clock);
  sim.run();
  EXPECT_EQ(sim.count(JobState::Held), 0);
  EXPECT_EQ(sim.count(JobState::Done), kRuns - 3);
}

}  // namespace
}  // namespace pergpu::testing
