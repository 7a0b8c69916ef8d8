// The coordinator's decisions over fakes (simulation.h).
#include <algorithm>
#include <set>

#include "simulation.h"

namespace pergpu::testing {
namespace {

SweepSpec train_and_evaluate(int runs) {
  SweepSpec sweep = sweep_of("thirteen", runs);
  sweep.steps.push_back(step_of("train", "10s"));
  StepSpec evaluate = step_of("evaluate", "3s");
  evaluate.needs = {{.step = 0}};
  evaluate.max_parallel = 1;
  sweep.steps.push_back(evaluate);
  return sweep;
}

struct CoordinatorTest : ::testing::Test {
  MemoryStore store;
  SimClock clock;
};

TEST_F(CoordinatorTest, RunsEveryJobOfASweepAndEvaluatesEachRunAsSoonAsItIsTrained) {
  Simulation sim(store, clock);
  Result<SubmitReply> reply = sim.submit(train_and_evaluate(13), {.lanes = 8});
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->fresh, 26);
  int most_live = 0;
  int most_evaluating = 0;
  bool overlapped = false;
  sim.run([&] {
    int evaluating = 0;
    int training = 0;
    for (const Job& job : sim.world.jobs()) {
      if (!is_live(job.state)) continue;
      (job.step == 1 ? evaluating : training) += 1;
    }
    most_live = std::max(most_live, evaluating + training);
    most_evaluating = std::max(most_evaluating, evaluating);
    overlapped = overlapped || (evaluating > 0 && training > 0);
    return false;
  });
  EXPECT_EQ(sim.count(JobState::Done), 26);
  EXPECT_EQ(most_live, 8);
  EXPECT_EQ(most_evaluating, 1);
  EXPECT_TRUE(overlapped);
  EXPECT_TRUE(sim.core->idle());
}

TEST_F(CoordinatorTest, SubmittingAgainKeepsWhatIsDoneAndStartsNothing) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(train_and_evaluate(3)));
  sim.run();
  Result<SubmitReply> again = sim.submit(train_and_evaluate(3));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->fresh, 0);
  EXPECT_EQ(again->kept, 6);
  EXPECT_EQ(again->requeued, 0);
  EXPECT_EQ(sim.core->live_count(), 0u);
}

TEST_F(CoordinatorTest, NothingStartsBeforeItIsKnownWhatRunsAlready) {
  Simulation sim(store, clock);
  sim.local.knows_the_past = false;
  ASSERT_TRUE(sim.submit(train_and_evaluate(1)));
  EXPECT_EQ(sim.core->live_count(), 0u);
  EXPECT_EQ(sim.core->why(sim.job(1)),
            "waits while the coordinator checks jobs that were running before it restarted");
  sim.local.knows_the_past = true;
  sim.turn();
  EXPECT_EQ(sim.core->live_count(), 1u);
}

TEST_F(CoordinatorTest, TheSameRequestKeyGivesTheSameAnswer) {
  Simulation sim(store, clock);
  Result<SubmitReply> first = sim.submit(train_and_evaluate(2), {.key = "k1"});
  Result<SubmitReply> second = sim.submit(train_and_evaluate(2), {.key = "k1"});
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  EXPECT_EQ(first->jobs, second->jobs);
  EXPECT_EQ(sim.world.sweeps().size(), 1u);
}

TEST_F(CoordinatorTest, AFailedNeedSkipsAndARetryBringsBack) {
  SweepSpec sweep = train_and_evaluate(1);
  sweep.steps[0].fake.exit = "3";
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(sweep));
  sim.run();
  EXPECT_EQ(sim.job(1).state, JobState::Failed);
  EXPECT_EQ(sim.job(1).reason, "exit code 3");
  EXPECT_EQ(sim.job(2).state, JobState::Skipped);
  sim.core->retry({JobId{1}});
  sim.turn();
  EXPECT_TRUE(is_live(sim.job(1).state));
  EXPECT_EQ(sim.job(2).state, JobState::Queued);
}

TEST_F(CoordinatorTest, RetriesAreChargedOncePerFailure) {
  SweepSpec sweep = sweep_of("again", 1);
  sweep.steps.push_back(step_of("main", "1s", "1"));
  sweep.steps[0].retries = {.max = 2};
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(sweep));
  sim.run();
  EXPECT_EQ(sim.job(1).state, JobState::Failed);
  EXPECT_EQ(sim.job(1).attempts, 3);
}

TEST_F(CoordinatorTest, AStepOfTheWallClockNeitherStretchesNorCutsARetrysDelay) {
  for (const std::int64_t step : {-3600 * kSecond, 3600 * kSecond}) {
    MemoryStore memory;
    SweepSpec sweep = sweep_of("again", 1);
    sweep.steps.push_back(step_of("main", "1s", "1"));
    sweep.steps[0].retries = {.max = 1, .delay = std::chrono::seconds(8)};
    Simulation sim(memory, clock);
    ASSERT_TRUE(sim.submit(sweep));
    sim.run([&] { return sim.job(1).state == JobState::Queued && sim.job(1).attempts == 1; });
    const std::int64_t ended = clock.now().boot_ns;
    clock.step_ns += step;
    EXPECT_EQ(sim.core->why(sim.job(1)).find("waits 8"), 0u) << sim.core->why(sim.job(1));
    sim.run([&] { return sim.job(1).attempts == 2; });
    EXPECT_GE(clock.now().boot_ns - ended, 8 * kSecond) << step;
    EXPECT_LE(clock.now().boot_ns - ended, 11 * kSecond) << step;
  }
}

TEST_F(CoordinatorTest, ADelayThatWasReadIsNoLongerThanItWasWhateverTheClockSays) {
  for (const char* boot : {"boot-1", "boot-2"}) {
    MemoryStore memory;
    clock = {};
    {
      SweepSpec sweep = sweep_of("again", 1);
      sweep.steps.push_back(step_of("main", "1s", "1"));
      sweep.steps[0].retries = {.max = 1, .delay = std::chrono::seconds(8)};
      Simulation before(memory, clock);
      ASSERT_TRUE(before.submit(sweep));
      before.run([&] { return before.job(1).attempts == 1 && !is_live(before.job(1).state); });
    }
    clock.step_ns = -3600 * kSecond;
    if (std::string(boot) == "boot-2") clock.ns = 0;  // it counts from there
    const std::int64_t read = clock.now().boot_ns;
    Simulation after(memory, clock, boot);
    after.run([&] { return after.job(1).attempts == 2; });
    EXPECT_LE(clock.now().boot_ns - read, 11 * kSecond) << boot;
  }
}

TEST_F(CoordinatorTest, RowsGoneFromTheFileAreCancelledAndNewOnesGetTheNextIndex) {
  SweepSpec sweep = sweep_of("rows", 3);
  sweep.steps.push_back(step_of("main", "10s"));
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(sweep, {.lanes = 1}));
  sim.turn();
  SweepSpec changed = sweep_of("rows", 4);
  changed.runs.erase(changed.runs.begin() + 2);  // x = 2 is gone, x = 3 is new
  changed.steps = sweep.steps;
  Result<SubmitReply> reply = sim.submit(changed, {.lanes = 1});
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->fresh, 1);
  EXPECT_EQ(reply->dropped, 1);
  EXPECT_EQ(sim.job(3).state, JobState::Cancelled);
  EXPECT_EQ(sim.job(3).reason, "no longer in the file");
  EXPECT_EQ(sim.job(4).run, 3);
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 3);
}

TEST_F(CoordinatorTest, AChangedDefinitionIsANewJobThatWaitsForTheOldOneToEnd) {
  SweepSpec sweep = sweep_of("changed", 1);
  sweep.steps.push_back(step_of("main", "10s"));
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(sweep));
  sim.turn();
  sweep.steps[0].command = {"false"};
  ASSERT_TRUE(sim.submit(sweep));
  EXPECT_EQ(sim.world.jobs().size(), 2u);
  EXPECT_TRUE(is_live(sim.job(1).state));
  EXPECT_EQ(sim.job(2).state, JobState::Queued);
  EXPECT_EQ(sim.core->why(sim.job(2)), "waits for the earlier version of this job (job 1) to end");
  sim.run();
  EXPECT_EQ(sim.job(2).state, JobState::Done);
}

TEST_F(CoordinatorTest, AnUnwritableStoreStartsNothingKillsNothingAndRecovers) {
  SweepSpec sweep = sweep_of("full", 4);
  sweep.steps.push_back(step_of("main", "2s"));
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(sweep, {.lanes = 1}));
  sim.turn();
  store.failing = true;
  int rounds = 0;
  sim.run([&] { return ++rounds > 20; });
  EXPECT_FALSE(sim.journal->writable());
  EXPECT_LE(sim.count(JobState::Done), 1);
  EXPECT_EQ(sim.engine->running(), 0u);  // an intent may wait, nothing of it runs
  store.failing = false;
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 4);
  for (const Job& job : sim.world.jobs()) EXPECT_EQ(job.attempts, 1);
}

TEST_F(CoordinatorTest, AnotherBootLosesWhatRanAndRunsItAgainUncharged) {
  SweepSpec sweep = sweep_of("reboot", 2);
  sweep.steps.push_back(step_of("main", "5s"));
  {
    Simulation before(store, clock);
    ASSERT_TRUE(before.submit(sweep));
    before.turn();
    before.sim_timers.step(clock);
    before.turn();
  }
  Simulation after(store, clock, "boot-2");
  EXPECT_EQ(after.job(1).moves, 1);
  after.run();
  EXPECT_EQ(after.count(JobState::Done), 2);
  EXPECT_EQ(after.job(1).attempts, 2);
  EXPECT_EQ(after.job(1).retries_used, 0);
}

TEST_F(CoordinatorTest, AReplayedWorldIsTheLiveOne) {
  Simulation sim(store, clock);
  SweepSpec sweep = train_and_evaluate(5);
  sweep.steps[0].fake.exit = "{x}";
  sweep.steps[0].retries = {.max = 1};
  ASSERT_TRUE(sim.submit(sweep));
  sim.run();
  World replayed;
  load_whole(store, replayed);
  ASSERT_EQ(replayed.jobs().size(), sim.world.jobs().size());
  for (const Job& job : sim.world.jobs()) {
    EXPECT_TRUE(*replayed.job(job.id) == job) << "job " << job.id.value;
  }
}

TEST_F(CoordinatorTest, ReleaseAfterCtrlCGoesOnWhereItStopped) {
  Simulation sim(store, clock);
  SweepSpec sweep = sweep_of("held", 3);
  sweep.steps.push_back(step_of("main", "5s"));
  ASSERT_TRUE(sim.submit(sweep, {.lanes = 1}));
  sim.turn();
  sim.core->interrupt(SweepId{1}, 1);
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 1);
  EXPECT_EQ(sim.count(JobState::Held), 2);
  EXPECT_TRUE(sim.core->idle());
  sim.core->release({JobId{2}, JobId{3}});
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 3);
}

TEST_F(CoordinatorTest, AJobCancelledWhileItsIntentIsStoredIsNeverStarted) {
  Simulation sim(store, clock);
  SweepSpec sweep = sweep_of("early", 1);
  sweep.steps.push_back(step_of("main", "5s"));
  ASSERT_TRUE(sim.submit(sweep));
  ASSERT_EQ(sim.count(JobState::Starting) + sim.count(JobState::Running), 1);
  sim.core->cancel({JobId{1}}, false, "cancelled by hand");
  sim.run();
  EXPECT_EQ(sim.job(1).state, JobState::Cancelled);
  EXPECT_EQ(sim.job(1).attempts, 1);
}

TEST_F(CoordinatorTest, WhatHasNotStartedIsCancelledAndWhatRunsGoesOn) {
  SweepSpec sweep = sweep_of("spared", 4);
  sweep.steps.push_back(step_of("main", "10s"));
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(sweep, {.lanes = 1}));
  sim.core->hold({JobId{2}}, "held by hand");
  const Coordinator::Changed changed =
      sim.core->cancel_queued({JobId{1}, JobId{2}, JobId{3}}, "cancelled by hand");
  EXPECT_EQ(changed.changed, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(changed.unchanged, std::vector<std::int64_t>{1});
  EXPECT_TRUE(is_live(sim.job(1).state));
  EXPECT_EQ(sim.job(2).state, JobState::Cancelled);
  EXPECT_EQ(sim.core->cancel_queued({JobId{3}}, "again").unchanged, std::vector<std::int64_t>{3});
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 2);
  EXPECT_EQ(sim.count(JobState::Cancelled), 2);
}

TEST_F(CoordinatorTest, AStepThatNeverFitsIsRefusedAndNothingIsRecorded) {
  Simulation sim(store, clock);
  SweepSpec sweep = sweep_of("huge", 1);
  sweep.steps.push_back(step_of("main"));
  sweep.steps[0].cpus = 64;
  Result<SubmitReply> reply = sim.submit(sweep);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().kind, ErrorKind::Invalid);
  EXPECT_EQ(sim.world.jobs().size(), 0u);
  sweep.steps[0].cpus.reset();
  sweep.steps[0].gpus = 1;
  reply = sim.submit(sweep);
  ASSERT_FALSE(reply);
  EXPECT_NE(reply.error().message.find("step main asks for a GPU"), std::string::npos);
}

}  // namespace
}  // namespace pergpu::testing
