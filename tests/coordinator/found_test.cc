// What the simulation (tests/simulation/) and kills of real processes (tests/fault/) have found
// wrong, told as short as it can be.
#include <algorithm>
#include <variant>

#include "lock_folder.h"
#include "simulation.h"

namespace pergpu::testing {
namespace {

struct FoundTest : ::testing::Test {
  int environments_removed() const {
    return static_cast<int>(std::count_if(store.rows.begin(), store.rows.end(), [](const Row& row) {
      const auto* environment = std::get_if<row::Environment>(&row);
      return environment != nullptr && environment->entries.empty();
    }));
  }
  /// "first", and "second" that starts when all of it has ended; everything fails.
  static SweepSpec behind_a_barrier() {
    SweepSpec sweep = sweep_of("barrier", 1);
    sweep.steps.push_back(step_of("first", "1s", "1"));
    sweep.steps.push_back(step_of("second", "1s", "1"));
    sweep.steps[1].needs = {{.step = 0, .scope = Need::Scope::Ended}};
    return sweep;
  }

  MemoryStore store;
  SimClock clock;
};

TEST_F(FoundTest, AnOlderVersionThatFailsIsNotStartedAgain) {
  SweepSpec sweep = sweep_of("changed", 1);
  sweep.steps.push_back(step_of("main", "10s", "1"));
  sweep.steps[0].retries = {.max = 2};
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(sweep));
  sim.turn();
  sweep.steps[0].command = {"false"};
  sweep.steps[0].fake.exit = "0";
  ASSERT_TRUE(sim.submit(sweep));
  ASSERT_TRUE(is_live(sim.job(1).state));
  sim.run();
  EXPECT_EQ(sim.job(1).attempts, 1);
  EXPECT_EQ(sim.job(1).state, JobState::Cancelled);
  EXPECT_NE(sim.job(1).reason.find("replaced by job 2"), std::string::npos) << sim.job(1).reason;
  EXPECT_EQ(sim.job(2).state, JobState::Done);
}

TEST_F(FoundTest, ABarrierIsClosedAgainForAJobThatWasRetriedBeforeItsNeeds) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(behind_a_barrier(), {.lanes = 2}));
  sim.run();
  ASSERT_EQ(sim.count(JobState::Failed), 2);
  sim.core->retry({JobId{2}, JobId{1}});
  sim.turn();
  EXPECT_TRUE(is_live(sim.job(1).state));
  EXPECT_EQ(sim.job(2).state, JobState::Queued);
  sim.run();
  EXPECT_EQ(sim.job(2).attempts, 2);
}

TEST_F(FoundTest, AGpuIsNotGivenToAJobWhoseNeedsWereQueuedAgainDuringTheLook) {
  const LockFolder locks;
  ShownGpus shown;
  shown.look.gpus = {gpu_reading(0)};
  Simulation sim(store, clock, "boot-1", {.cores = {0, 1}, .memory_bytes = 1ull << 30}, &shown);
  sim.run([&] { return sim.core->gpu_lanes().discovered(); });
  SweepSpec sweep = behind_a_barrier();
  sweep.steps[1].gpus = 1;
  ASSERT_TRUE(sim.submit(sweep));
  const int looks = shown.looks;
  sim.run([&] { return shown.looks > looks; });  // the GPU is looked at for job 2
  ASSERT_EQ(sim.job(1).state, JobState::Failed);
  sim.core->retry({JobId{1}});
  sim.run([&] { return sim.job(2).state != JobState::Queued; });
  EXPECT_EQ(sim.job(1).attempts, 2);
  EXPECT_EQ(sim.job(1).state, JobState::Failed);
}

TEST_F(FoundTest, ASubmitThatCannotBeStoredHoldsUpNoJob) {
  SweepSpec sweep = sweep_of("frozen", 1);
  sweep.steps.push_back(step_of("main", "1s", "1"));
  sweep.steps[0].retries = {.max = 1, .delay = std::chrono::seconds(5)};
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(sweep));
  sim.run([&] { return sim.job(1).state == JobState::Queued; });
  sim.core->submit(sweep, {.engine = "fake"}, [](const Result<SubmitReply>&) {});
  sim.core->settle();
  while (!sim.sim_timers.empty()) sim.sim_timers.step(clock);  // its time has come, meanwhile
  store.failing = true;
  sim.turn();
  store.failing = false;
  sim.run();
  EXPECT_EQ(sim.job(1).attempts, 2);
}

TEST_F(FoundTest, TheEnvironmentStaysForAJobWhoseRowIsGone) {
  SweepSpec sweep = sweep_of("rows", 2);
  sweep.steps.push_back(step_of("main", "{x}0s"));
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(sweep, {.env = {"A=1"}}));
  sweep.runs.pop_back();
  ASSERT_TRUE(sim.submit(sweep, {.env = {"A=1"}}));
  sim.run([&] { return sim.job(1).state == JobState::Done; });
  ASSERT_TRUE(is_live(sim.job(2).state));
  EXPECT_EQ(environments_removed(), 0);
  sim.run();
  EXPECT_EQ(environments_removed(), 1);
}

/// A keeper that is asked what it holds while its job ends says so twice.  (recovery_call 386)
TEST_F(FoundTest, AnEndThatIsToldTwiceIsForgottenWhenItIsStored) {
  for (const int exit_code : {0, 1}) {
    MemoryStore memory;
    Simulation sim(memory, clock);
    SweepSpec sweep = sweep_of("twice", 1);
    sweep.steps.push_back(step_of("main", "1s"));
    sweep.steps[0].retries = {.max = 1, .delay = std::chrono::seconds(0)};
    sim.core->submit(sweep, {.lanes = 1, .engine = "local"}, [](const Result<SubmitReply>&) {});
    sim.turn();
    ASSERT_TRUE(is_live(sim.job(1).state));
    const AttemptId id = {{1}, 1};
    sim.core->on_engine(engine_event::Started{.id = id, .pid = 4711, .start_ticks = 1});
    sim.turn();
    const engine_event::Exited exited{.id = id, .exit_code = exit_code, .signal = std::nullopt};
    sim.core->on_engine(exited);
    sim.core->on_engine(exited);
    sim.core->settle();
    EXPECT_EQ(sim.local.acknowledged, std::vector<AttemptId>{});
    sim.run_for(kMillisecond);
    EXPECT_NE(sim.local.acknowledged, std::vector<AttemptId>{});
  }
}

}  // namespace
}  // namespace pergpu::testing
