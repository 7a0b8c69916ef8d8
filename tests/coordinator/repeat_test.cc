// Repeats of what is done (--rerun) that never start: the job is done, as it was.
#include <gtest/gtest.h>

#include <limits>

#include "coordinator/simulation.h"

namespace pergpu::testing {
namespace {

class RepeatTest : public ::testing::Test {
 protected:
  SweepSpec train_and_evaluate(int runs) {
    SweepSpec sweep = sweep_of("again", runs);
    sweep.steps = {step_of("train"), step_of("evaluate")};
    sweep.steps[1].needs = {{.step = 0}};
    return sweep;
  }
  void expect_replayed(const Simulation& sim) {
    World replayed;
    load_whole(store, replayed);
    for (const Job& job : sim.world.jobs()) {
      EXPECT_TRUE(*replayed.job(job.id) == job) << "job " << job.id.value;
    }
  }
  MemoryStore store;
  SimClock clock;
};

TEST_F(RepeatTest, OfAJobWithoutAnAttemptNumberLeftIsHeld) {
  const std::int16_t most = std::numeric_limits<std::int16_t>::max();
  {
    World world;
    SweepSpec sweep = sweep_of("s", 2);
    sweep.steps.push_back(step_of("train"));
    Result<SubmitPlan> plan = plan_submit(world, sweep, {}, {1, 1});
    ASSERT_TRUE(plan);
    store.append(std::make_shared<Batch>(std::move(plan->rows)), [](const Result<void>&) {});
    Attempt last{.number = most, .outcome = Outcome{.cls = OutcomeClass::Exit}};
    Batch used{row::Event{
        {1}, event::Folded{.state = JobState::Queued, .attempts = most, .last = {last}}, {1, 1}}};
    store.append(std::make_shared<Batch>(std::move(used)), [](const Result<void>&) {});
    store.drain();
  }
  Simulation sim(store, clock);
  sim.run();
  EXPECT_EQ(sim.job(2).attempts, 1) << "the others go on";
  EXPECT_EQ(sim.job(1).state, JobState::Held);
  EXPECT_NE(sim.core->why(sim.job(1)).find("has had 32767 attempts"), std::string::npos);
  sim.core->release({JobId{1}});
  sim.run();
  EXPECT_EQ(sim.job(1).state, JobState::Held);
  EXPECT_EQ(sim.job(1).attempts, most);
}

TEST_F(RepeatTest, CancelledBeforeItStartsLeavesEverythingDone) {
  Simulation sim(store, clock);
  const SweepSpec sweep = train_and_evaluate(3);
  ASSERT_TRUE(sim.submit(sweep, {.lanes = 1}));
  sim.run();
  ASSERT_EQ(sim.count(JobState::Done), 6);
  const Result<SubmitReply> again = sim.submit(sweep, {.lanes = 1, .rerun = true});
  ASSERT_EQ(again->requeued, 6);
  EXPECT_EQ(sim.core->live_count(), 1u);
  std::vector<JobId> all;
  for (const Job& job : sim.world.jobs()) all.push_back(job.id);
  sim.core->hold({JobId{5}}, "held by hand");
  sim.turn();
  EXPECT_EQ(sim.core->cancel(all, true, "cancelled by hand").changed.size(), 6u);
  sim.run();
  EXPECT_EQ(sim.count(JobState::Cancelled), 1) << "the one that had started";
  EXPECT_EQ(sim.count(JobState::Done), 5);
  EXPECT_EQ(sim.job(5).attempts, 1);
  EXPECT_EQ(sim.core->why(sim.job(5)),
            "done; its repeat was cancelled before it started: cancelled by hand");
  expect_replayed(sim);
  // And it is kept by the next submit.
  EXPECT_EQ(sim.submit(sweep, {.lanes = 1})->kept, 5);
}

TEST_F(RepeatTest, RowsGoneFromTheFileAreDoneAsBefore) {
  Simulation sim(store, clock);
  SweepSpec sweep = train_and_evaluate(2);
  ASSERT_TRUE(sim.submit(sweep, {.lanes = 1}));
  sim.run();
  ASSERT_TRUE(sim.submit(sweep, {.lanes = 1, .rerun = true}));
  SweepSpec shorter = train_and_evaluate(1);
  ASSERT_TRUE(sim.submit(shorter, {.lanes = 1}));
  EXPECT_EQ(sim.job(2).state, JobState::Done);
  EXPECT_EQ(sim.job(2).attempts, 1);
}

TEST_F(RepeatTest, SkippedForItsNeedIsDoneAndComesWithThatNeed) {
  Simulation sim(store, clock);
  SweepSpec sweep = train_and_evaluate(1);
  ASSERT_TRUE(sim.submit(sweep));
  sim.run();
  sweep.steps[0].fake.exit = "3";  // no part of what makes it another job
  ASSERT_TRUE(sim.submit(sweep, {.rerun = true}));
  sim.run();
  ASSERT_EQ(sim.job(1).state, JobState::Failed);
  EXPECT_EQ(sim.job(2).state, JobState::Done);
  EXPECT_EQ(sim.job(2).attempts, 1);
  EXPECT_NE(sim.core->why(sim.job(2)).find("its repeat was skipped"), std::string::npos);
  expect_replayed(sim);
  sim.core->retry({JobId{1}});
  sim.turn();
  EXPECT_EQ(sim.job(2).state, JobState::Queued) << "its repeat is still wanted";
  sim.run();
  ASSERT_EQ(sim.job(2).state, JobState::Done);
  sweep.steps[0].fake.exit = "0";
  ASSERT_TRUE(sim.submit(sweep));  // as does the same file
  sim.run();
  EXPECT_EQ(sim.job(2).attempts, 2);
  EXPECT_FALSE(sim.job(2).repeat_skipped);
}

TEST_F(RepeatTest, WaitingForALaneItSaysThatItWasDone) {
  Simulation sim(store, clock);
  SweepSpec sweep = sweep_of("again", 2);
  sweep.steps = {step_of("main")};
  ASSERT_TRUE(sim.submit(sweep, {.lanes = 1}));
  sim.run();
  ASSERT_TRUE(sim.submit(sweep, {.lanes = 1, .rerun = true}));
  const std::string why = sim.core->why(sim.job(2));
  EXPECT_NE(why.find("(attempt 1 succeeded)"), std::string::npos) << why;
}

}  // namespace
}  // namespace pergpu::testing
