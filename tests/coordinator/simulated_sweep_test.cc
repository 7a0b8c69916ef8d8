// A sweep that was only simulated, submitted for real, and the other way round.
#include "state/simulated_sweep.h"

#include <gtest/gtest.h>

#include "coordinator/describe.h"
#include "coordinator/simulation.h"

namespace pergpu::testing {
namespace {

class SimulatedSweepTest : public ::testing::Test {
 protected:
  static SweepSpec rows(int count) {
    SweepSpec sweep = sweep_of("sim", count);
    sweep.steps = {step_of("main", "10s")};
    return sweep;
  }
  /// For real: the engine of `sim` starts its jobs and never ends them.
  Result<SubmitReply> run(Simulation& life, const SweepSpec& file, SubmitContext context = {}) {
    Result<SubmitReply> reply = Error{ErrorKind::Unavailable, 0, "no answer"};
    life.core->submit(file, std::move(context),
                      [&](Result<SubmitReply> r) { reply = std::move(r); });
    life.turn();
    return reply;
  }
  MemoryStore store;
  SimClock clock;
  Simulation sim{store, clock};
};

TEST_F(SimulatedSweepTest, IsANewSweepWhenItIsSubmittedForReal) {
  ASSERT_TRUE(sim.submit(rows(2), {.lanes = 2}));
  sim.run();
  ASSERT_EQ(sim.count(JobState::Done), 2);
  const Result<SubmitPreview> preview = sim.core->preview(rows(2), {.lanes = 2});
  ASSERT_TRUE(preview) << preview.error().message;
  EXPECT_EQ(preview->reply.fresh, 2);
  EXPECT_EQ(preview->starts.size(), 2u);

  for (const bool only_new : {false, true}) {
    const Result<SubmitReply> real = run(sim, rows(2), {.lanes = 2, .only_new = only_new});
    ASSERT_TRUE(real) << real.error().message;
    EXPECT_EQ(real->sweep, "sim");
    EXPECT_EQ(real->sweep_id, 2);
    EXPECT_EQ(real->fresh, only_new ? 0 : 2);
    EXPECT_EQ(real->kept, only_new ? 2 : 0);
    EXPECT_EQ(real->warnings.empty(), only_new);
    if (!only_new) {
      EXPECT_EQ(real->warnings, preview->reply.warnings);
      EXPECT_NE(real->warnings[0].find("simulated before"), std::string::npos);
    }
  }
  EXPECT_TRUE(is_live(sim.job(3).state));
  EXPECT_EQ(sim.world.sweep_at(rows(2).folder + "/runs", "sim"), SweepId{2});
  EXPECT_TRUE(sim.world.is_forgotten(SweepId{1}));
}

TEST_F(SimulatedSweepTest, IsANewOneAfterARestartToo) {
  ASSERT_TRUE(sim.submit(rows(2), {.lanes = 2}));
  sim.run();
  Simulation second{store, clock};
  const Result<SubmitReply> real = run(second, rows(3), {.lanes = 2});
  ASSERT_TRUE(real) << real.error().message;
  EXPECT_EQ(real->fresh, 3);
  EXPECT_EQ(real->sweep_id, 2);
  Simulation third{store, clock};
  EXPECT_EQ(third.world.sweeps_named("sim"), std::vector<SweepId>{SweepId{2}});
}

TEST_F(SimulatedSweepTest, StaysAsItIsWhenItIsSimulatedAgain) {
  ASSERT_TRUE(sim.submit(rows(2), {.lanes = 2}));
  sim.run();
  const Result<SubmitReply> again = sim.submit(rows(3), {.lanes = 2});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->kept, 2);
  EXPECT_EQ(again->fresh, 1);
  EXPECT_EQ(again->warnings.size(), 0u);
}

TEST_F(SimulatedSweepTest, IsNotReplacedWhileItHasJobs) {
  ASSERT_TRUE(sim.submit(rows(2), {.lanes = 1}));
  const Result<SubmitReply> real = run(sim, rows(2), {.lanes = 1});
  ASSERT_FALSE(real);
  EXPECT_NE(real.error().message.find("pergpu cancel sim"), std::string::npos)
      << real.error().message;
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 2);
}

TEST_F(SimulatedSweepTest, ARealSweepIsNotSimulated) {
  ASSERT_TRUE(run(sim, rows(2), {.lanes = 2}));
  const Result<SubmitReply> fake = sim.submit(rows(2), {.lanes = 2});
  ASSERT_FALSE(fake);
  EXPECT_NE(fake.error().message.find("another name"), std::string::npos) << fake.error().message;
  EXPECT_FALSE(sim.core->preview(rows(2), {.lanes = 2, .engine = kFake}));
  EXPECT_EQ(sim.world.sweep(SweepId{1})->context.engine, "local");
  const Result<SubmitReply> other = sim.submit(rows(2), {.lanes = 2, .unique_name = true});
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(other->sweep, "sim-2");
}

TEST_F(SimulatedSweepTest, WithRealResultsOfAnEarlierBuildKeepsThem) {
  ASSERT_TRUE(sim.submit(rows(2), {.lanes = 2}));
  sim.run();
  sim.world.job(JobId{2})->last->keeper = KeeperId{7};
  const Result<SubmitReply> real = run(sim, rows(2), {.lanes = 2});
  ASSERT_TRUE(real) << real.error().message;
  EXPECT_EQ(real->kept, 2);
  EXPECT_EQ(real->sweep_id, 1);
}

TEST_F(SimulatedSweepTest, SaysSo) {
  ASSERT_TRUE(sim.submit(rows(1), {.lanes = 1}));
  sim.run();
  const std::vector<std::string> said = {kSimulated};
  EXPECT_EQ(describe(*sim.core, *sim.world.sweep(SweepId{1})).warnings, said);
  EXPECT_EQ(describe(*sim.core, sim.job(1)).warnings, said);
  ASSERT_TRUE(run(sim, rows(1), {.lanes = 1}));
  EXPECT_TRUE(describe(*sim.core, *sim.world.sweep(SweepId{2})).warnings.empty());
  EXPECT_TRUE(describe(*sim.core, sim.job(2)).warnings.empty());
}

}  // namespace
}  // namespace pergpu::testing
