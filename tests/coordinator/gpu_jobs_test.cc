// Jobs on GPUs as looks show them: who starts where, who waits, and what is given back.
#include "gpu_jobs.h"

namespace pergpu::testing {
namespace {

TEST_F(GpuJobsTest, AfterARestartQueuedGpuJobsWaitForTheFirstLook) {
  show_foreign_processes(true);
  {
    std::unique_ptr<Simulation> before = start();
    discover(*before);
    ASSERT_TRUE(before->submit(training(3)));
    before->run_for(5 * kSecond);
    ASSERT_EQ(before->count(JobState::Queued), 3);
  }
  std::unique_ptr<Simulation> after = start();
  after->run_for(5 * kSecond);
  EXPECT_EQ(after->count(JobState::Queued), 3);
  show_foreign_processes(false);
  after->run_for(60 * kSecond);
  EXPECT_EQ(after->count(JobState::Done), 3);
  EXPECT_EQ(on_cpu_lanes(*after), 0);
}

TEST_F(GpuJobsTest, GpusThatTheFirstLookDoesNotShowAreLookedForAgainWhileAJobWantsOne) {
  show_foreign_processes(true);
  {
    std::unique_ptr<Simulation> before = start();
    discover(*before);
    ASSERT_TRUE(before->submit(training(2), {.devices = "1"}));
  }
  const GpuLook there = {.complete = true, .gpus = {gpu_reading(0), gpu_reading(1)}};
  for (const GpuLook& gone : {GpuLook{.why = "the driver did not answer within 15 s"},
                              GpuLook{.complete = true, .why = "no driver", .no_driver = true},
                              GpuLook{.complete = true}}) {
    shown.look = gone;
    shown.looks = 0;
    std::unique_ptr<Simulation> after = start();
    after->run_for(600 * kSecond);
    EXPECT_EQ(after->count(JobState::Queued), 2);
    EXPECT_GE(shown.looks, 10);  // at 1, 3, 7, 15, 31, 63, 123 … s
    EXPECT_LE(shown.looks, 20);
  }
  std::unique_ptr<Simulation> after = start();
  after->run_for(5 * kSecond);
  shown.look = there;
  after->run_for(60 * kSecond);
  EXPECT_EQ(after->count(JobState::Done), 2);
  EXPECT_EQ(on_cpu_lanes(*after), 0);
  for (const Job& job : after->world.jobs()) {
    EXPECT_EQ(job.last->placement.gpus, std::vector<std::string>{there.gpus[1].uuid});
  }
}

TEST_F(GpuJobsTest, NobodyLooksForGpusThatNoJobWants) {
  shown.look = {.complete = true, .no_driver = true};
  std::unique_ptr<Simulation> sim = start();
  discover(*sim);
  SweepSpec sweep = training(2);
  ASSERT_TRUE(sim->submit(sweep, {.lanes = 1}));  // no GPU here: --lanes lets it run anyway
  sim->run();
  EXPECT_EQ(sim->count(JobState::Done), 2);
  EXPECT_EQ(shown.looks, 1);
}

/// The second submit comes while the GPU is looked at; `foreign` makes that look fail.
struct ResubmitTest : GpuJobsTest {
  void resubmit_with_other_memory(bool foreign) {
    show_foreign_processes(foreign);
    std::unique_ptr<Simulation> sim = start();
    discover(*sim);
    SweepSpec sweep = training(1);
    for (std::uint64_t gib : {std::uint64_t{40}, std::uint64_t{8}}) {
      sweep.steps[0].memory_bytes = gib << 30;
      ASSERT_TRUE(sim->submit(sweep));
      EXPECT_EQ(sim->core->why(sim->job(1)), "checking its GPU");
    }
    sim->run_for(kSecond);
    sim->core->cancel({JobId{1}}, true, "cancelled by hand");
    sim->run_for(kSecond);
    SweepSpec next = sweep_of("next", 1);  // fits only when all was given back
    next.steps.push_back(step_of("main", "1s"));
    next.steps[0].memory_bytes = 64ull << 30;
    ASSERT_TRUE(sim->submit(next));
    EXPECT_TRUE(is_live(sim->job(2).state)) << sim->core->why(sim->job(2));
    // … and not more than all.
    next.name = "beside";
    next.steps[0].memory_bytes = 1ull << 30;
    ASSERT_TRUE(sim->submit(next));
    EXPECT_EQ(sim->job(3).state, JobState::Queued);
  }
};
TEST_F(ResubmitTest, WhatWasReservedIsGivenBackWhenTheJobStarts) {
  resubmit_with_other_memory(false);
}
TEST_F(ResubmitTest, WhatWasReservedIsGivenBackWhenItsGpuIsNotClean) {
  resubmit_with_other_memory(true);
}

TEST_F(GpuJobsTest, WhileTheStoreCannotBeWrittenNoLeaseIsKept) {
  shown.look.gpus = {gpu_reading(0)};
  std::unique_ptr<Simulation> sim = start();
  discover(*sim);
  ASSERT_TRUE(sim->submit(training(2)));
  sim->run_for(kSecond);
  ASSERT_EQ(sim->count(JobState::Running), 1);
  EXPECT_FALSE(locks.other_user().take(gpu_reading(0).uuid));
  store.failing = true;
  sim->run_for(60 * kSecond);
  EXPECT_FALSE(sim->journal->writable());
  EXPECT_TRUE(locks.other_user().take(gpu_reading(0).uuid));
  store.failing = false;
  sim->run_for(60 * kSecond);
  EXPECT_EQ(sim->count(JobState::Done), 2);
}

/// Four GPUs, and a sweep whose jobs want several each.
struct SeveralGpusTest : GpuJobsTest {
  SeveralGpusTest() {
    shown.look.gpus.clear();
    for (int i = 0; i < 4; ++i) shown.look.gpus.push_back(gpu_reading(i));
  }
  static SweepSpec wide(int gpus, int runs) {
    SweepSpec sweep = training(runs);
    sweep.name = "wide";
    sweep.steps[0].gpus = gpus;
    return sweep;
  }
};

TEST_F(SeveralGpusTest, AJobHasAllOfThemForItselfAndAPortOfItsOwn) {
  std::unique_ptr<Simulation> sim = start();
  discover(*sim);
  ASSERT_TRUE(sim->submit(wide(2, 3)));
  sim->run_for(kSecond);
  ASSERT_EQ(sim->count(JobState::Running), 2);
  const Placement first = sim->job(1).last->placement;
  const Placement second = sim->job(2).last->placement;
  EXPECT_EQ(first.gpus, (std::vector{gpu_reading(0).uuid, gpu_reading(1).uuid}));
  EXPECT_EQ(lane_words(first), "gpu0 and gpu1");
  EXPECT_EQ(lane_words(second), "gpu2 and gpu3");
  EXPECT_EQ(first.cpus, 2) << "two of four shares of four cores";
  EXPECT_TRUE(first.port > 0 && second.port > 0 && first.port != second.port);
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(locks.other_user().take(gpu_reading(i).uuid)) << i;
  EXPECT_EQ(sim->core->why(sim->job(3)), "asks for 2 GPUs, all 4 GPUs are in use");
  sim->run_for(60 * kSecond);
  EXPECT_EQ(sim->count(JobState::Done), 3);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(locks.other_user().take(gpu_reading(i).uuid)) << i;
}

TEST_F(SeveralGpusTest, WhileOneIsAnotherUsersNoneIsKept) {
  std::unique_ptr<Simulation> sim = start();
  discover(*sim);
  const Result<gpu::Lease> theirs = locks.other_user().take(gpu_reading(3).uuid);
  ASSERT_TRUE(theirs);
  ASSERT_TRUE(sim->submit(wide(4, 1)));
  sim->run_for(kSecond);
  EXPECT_EQ(sim->count(JobState::Queued), 1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(locks.other_user().take(gpu_reading(i).uuid)) << i;
}

TEST_F(SeveralGpusTest, ThatAreNotAllCleanStartNothing) {
  shown.look.gpus[2].processes = {foreign_process()};
  std::unique_ptr<Simulation> sim = start();
  discover(*sim);
  ASSERT_TRUE(sim->submit(wide(4, 1)));
  sim->run_for(5 * kSecond);
  EXPECT_EQ(sim->count(JobState::Queued), 1);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(locks.other_user().take(gpu_reading(i).uuid)) << i;
  ASSERT_TRUE(sim->submit(training(3)));
  sim->run_for(5 * kSecond);
  EXPECT_EQ(sim->count(JobState::Running), 3) << "nothing is kept for what nobody can have";
  shown.look.gpus[2].processes.clear();
  sim->run_for(120 * kSecond);
  EXPECT_EQ(sim->count(JobState::Done), 4);
}

// A GPU that an outsider has for good is in doubt every two seconds.
TEST_F(SeveralGpusTest, OfWhichOneIsNotToBeHadAreGatheredAllTheSame) {
  shown.look.gpus[3].processes = {foreign_process()};
  std::unique_ptr<Simulation> sim = start();
  discover(*sim);
  SweepSpec narrow = training(400);
  narrow.steps[0].fake.duration = "{n}s";
  narrow.runs.clear();
  for (int i = 0; i < 400; ++i) {
    narrow.runs.push_back(
        {.json = "{\"n\":" + std::to_string(7 + i % 5) + ",\"x\":" + std::to_string(i) + "}"});
  }
  narrow.columns = {"n", "x"};
  ASSERT_TRUE(sim->submit(narrow));
  sim->run_for(kSecond);
  SweepSpec first = wide(3, 1);
  first.steps[0].priority = 1;
  ASSERT_TRUE(sim->submit(first));
  sim->run_for(200 * kSecond);
  EXPECT_EQ(sim->job(401).state, JobState::Done) << sim->core->why(sim->job(401));
  EXPECT_GT(sim->count(JobState::Queued), 200);
}

TEST_F(SeveralGpusTest, AreItsOwnAgainAfterARestart) {
  int port = 0;
  {
    std::unique_ptr<Simulation> before = start();
    discover(*before);
    ASSERT_TRUE(before->submit(wide(2, 2)));
    before->run_for(kSecond);
    port = before->job(1).last->placement.port;
  }
  std::unique_ptr<Simulation> after = start();
  discover(*after);
  EXPECT_EQ(lane_words(after->job(1).last->placement), "gpu0 and gpu1");
  EXPECT_EQ(after->job(1).last->placement.port, port);
}

}  // namespace
}  // namespace pergpu::testing
