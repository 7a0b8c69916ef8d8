// The breaker in the coordinator: steps of more jobs than one turn of the loop holds or lets go,
// what waits for held jobs, people, restarts.
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
  sim.run([&] { return sim.count(JobState::Held) == kRuns - 5; });
  EXPECT_EQ(sim.count(JobState::Failed), 4) << "those that started at the same time, and no more";
  EXPECT_EQ(sim.count(JobState::Held), kRuns - 5);
  EXPECT_EQ(sim.count(JobState::Queued), 0) << "one is tried";
  EXPECT_FALSE(sim.core->idle());
  sim.run_for(600 * kSecond);
  EXPECT_LE(sim.count(JobState::Failed), 16) << "fewer and fewer are tried";
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
  const auto was_held = [&] {  // it may be the first one to be tried
    return std::any_of(store.rows.begin(), store.rows.end(), [&](const Row& row) {
      const auto* event = std::get_if<row::Event>(&row);
      const auto* held = event ? std::get_if<event::Held>(&*event->event) : nullptr;
      return held && event->job == lost.id && held->cause == HoldCause::Breaker;
    });
  };
  sim.run([&] { return was_held() || lost.attempts > 1; });
  EXPECT_TRUE(was_held());
  EXPECT_EQ(lost.attempts, 1);
}

TEST_F(BreakerTest, ARestartInTheMiddleOfHoldingHoldsTheRest) {
  {
    Simulation sim(store, clock);
    ASSERT_TRUE(sim.submit(one_step()));
    sim.run([&] { return sim.count(JobState::Held) > 0; });
    ASSERT_LT(sim.count(JobState::Held), kRuns - 4);
  }
  Simulation sim(store, clock);
  sim.run([&] { return sim.count(JobState::Held) + sim.count(JobState::Failed) >= kRuns - 1; });
  EXPECT_GE(sim.count(JobState::Held) + sim.count(JobState::Failed), kRuns - 1);
  EXPECT_LE(sim.count(JobState::Failed), 5);
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

/// 60 runs, the first 20 of which fail at once.
SweepSpec one_value_fails(const std::string& seconds = "60") {
  SweepSpec sweep{.name = "breaking", .folder = "/nowhere"};
  for (int i = 0; i < 60; ++i) {
    const bool fails = i < 20;
    sweep.runs.push_back(
        {.json = fmt::format(R"({{"exit":{},"lr":{},"seed":{},"seconds":{}}})", fails ? 2 : 0,
                             i / 20, i % 20, fails ? "1" : seconds)});
  }
  StepSpec step = step_of("main", "{seconds}s", "{exit}");
  sweep.steps.push_back(step);
  sweep.columns = {"lr", "seed"};
  return sweep;
}

/// Of the failing value, until the last of the others was done.
int attempts(const Simulation& sim) {
  std::int64_t last_done = 0;
  for (const Job& job : sim.world.jobs()) {
    if (job.state == JobState::Done) last_done = std::max(last_done, job.last->ended_at.boot_ns);
  }
  return static_cast<int>(
      std::count_if(sim.world.jobs().begin(), sim.world.jobs().end(), [&](const Job& job) {
        return job.run < 20 && job.last && job.last->starting_at.boot_ns < last_done;
      }));
}

class BreakerOnLanes : public BreakerTest, public ::testing::WithParamInterface<int> {};

TEST_P(BreakerOnLanes, TheOthersOfAFailingValueAreDoneWithoutAWord) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(one_value_fails(), {.lanes = GetParam()}));
  sim.run([&] { return sim.count(JobState::Done) == 40; });
  EXPECT_EQ(sim.count(JobState::Done), 40);
  EXPECT_LE(attempts(sim), 6);
  sim.run();
  EXPECT_EQ(sim.count(JobState::Failed), 20);
  EXPECT_TRUE(sim.core->idle());
}

INSTANTIATE_TEST_SUITE_P(Lanes, BreakerOnLanes, ::testing::Values(1, 2, 4, 6, 8, 64));

TEST_F(BreakerTest, AlsoWhereOneJobRunsAtATime) {
  SweepSpec sweep = one_value_fails();
  sweep.steps[0].max_parallel = 1;
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(sweep, {.lanes = 4}));
  sim.run([&] { return sim.count(JobState::Done) == 40; });
  EXPECT_EQ(sim.count(JobState::Done), 40);
  EXPECT_EQ(attempts(sim), 3);
}

TEST_F(BreakerTest, WhatNeedsAHeldJobWaitsAndIsSkippedWhenThatFails) {
  SweepSpec sweep = one_value_fails("1");
  sweep.steps.push_back(step_of("evaluate", "1s"));
  sweep.steps[1].needs = {{.step = 0}};
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(sweep, {.lanes = 4}));
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 80);
  EXPECT_EQ(sim.count(JobState::Failed), 20);
  EXPECT_EQ(sim.count(JobState::Skipped), 20);
}

TEST_F(BreakerTest, OnlyWhatCanStartIsAProbe) {
  // The step that fails is the second one: of most runs the first is not done yet.
  SweepSpec sweep = one_value_fails("1");
  sweep.steps[0].name = "evaluate";
  sweep.steps.push_back(step_of("train", "30s"));
  sweep.steps[0].needs = {{.step = 1}};
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(sweep, {.lanes = 4}));
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 100);
  EXPECT_EQ(sim.count(JobState::Failed), 20);
}

TEST_F(BreakerTest, ABarrierBehindItOpensInTheEnd) {
  SweepSpec sweep = one_value_fails("1");
  StepSpec table = step_of("table", "1s");
  table.once = true;
  table.needs = {{.step = 0, .scope = Need::Scope::Ended}};
  sweep.steps.push_back(table);
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(sweep, {.lanes = 4}));
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 41);
}

TEST_F(BreakerTest, RestartsWhileOneIsTriedChangeNothing) {
  {
    Simulation sim(store, clock);
    ASSERT_TRUE(sim.submit(one_value_fails("5"), {.lanes = 4}));
    sim.run([&] { return sim.count(JobState::Held) > 0 && sim.count(JobState::Running) == 1; });
  }
  for (int life = 0; life < 5; ++life) {
    Simulation sim(store, clock);
    sim.run_for(2 * kSecond);  // what the fake engine ran is lost, and tried again
  }
  Simulation sim(store, clock);
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done) + sim.count(JobState::Failed), 60);
  EXPECT_GE(sim.count(JobState::Done), 39);
  EXPECT_TRUE(sim.core->idle());
}

TEST_F(BreakerTest, WhatAPersonHoldsIsNotTried) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(one_value_fails("1"), {.lanes = 1}));
  sim.run([&] { return sim.count(JobState::Held) > 0; });
  std::vector<JobId> all;
  for (const Job& job : sim.world.jobs()) all.push_back(job.id);
  sim.core->hold(all, "held by hand");
  sim.run();
  const int held = sim.count(JobState::Held);
  EXPECT_GE(held, 55);
  EXPECT_TRUE(sim.core->idle()) << "only a person lets them go";
  EXPECT_EQ(sim.core->release(all).changed.size(), static_cast<std::size_t>(held));
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 40);
  EXPECT_EQ(sim.count(JobState::Failed), 20);
}

TEST_F(BreakerTest, CtrlCHoldsWhatItHolds) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(one_value_fails("1"), {.lanes = 1}));
  sim.run([&] { return sim.count(JobState::Held) > 0; });
  sim.core->interrupt(sim.world.sweeps().begin()->first, 1);
  sim.run();
  EXPECT_GE(sim.count(JobState::Held), 55);
  EXPECT_EQ(sim.core->why(sim.job(60)), "held by Ctrl-C");
}

TEST_F(BreakerTest, ReleaseRetryAndANewSubmitInBetween) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(one_value_fails("1"), {.lanes = 2}));
  sim.run([&] { return sim.count(JobState::Held) > 0; });
  sim.core->release({JobId{20}, JobId{60}});
  sim.core->retry({JobId{1}});
  sim.core->cancel({JobId{19}, JobId{59}}, false, "cancelled by hand");
  sim.run_for(kSecond);
  ASSERT_TRUE(sim.submit(one_value_fails("1"), {.lanes = 2}));
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 40);
  EXPECT_EQ(sim.count(JobState::Failed), 20);
  EXPECT_TRUE(sim.core->idle());
}

TEST_F(BreakerTest, WhySaysSinceWhenAndWhatIsTriedNext) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(one_value_fails(), {.lanes = 1}));
  sim.run([&] { return sim.count(JobState::Held) > 0 && sim.count(JobState::Running) == 1; });
  const std::string why = sim.core->why(sim.job(60));
  EXPECT_NE(why.find("held by the breaker: 3 jobs of step main failed the same way"),
            std::string::npos)
      << why;
  EXPECT_NE(why.find("; held since "), std::string::npos) << why;
  EXPECT_NE(why.find("; job 24 (23-lr=1,seed=3) is tried now"), std::string::npos) << why;
  sim.run([&] { return sim.count(JobState::Done) == 2; });
  const std::string last = sim.core->why(sim.job(20));
  EXPECT_NE(last.find("is tried when the other runs are done: the failed ones have"),
            std::string::npos)
      << last;
  EXPECT_NE(last.find("lr=0"), std::string::npos) << last;
}

}  // namespace
}  // namespace pergpu::testing
