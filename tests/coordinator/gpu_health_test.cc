// Attempts that fail on GPUs: what a look at their end makes of them, and of the jobs after them.
#include "lock_folder.h"
#include "simulation.h"

namespace pergpu::testing {
namespace {

struct GpuHealthTest : ::testing::Test {
  GpuHealthTest() { shown.look.gpus = {gpu_reading(0), gpu_reading(1)}; }

  std::unique_ptr<Simulation> start(const std::string& boot = "boot-1") {
    auto sim = std::make_unique<Simulation>(
        store, clock, boot, Machine{.cores = {0, 1, 2, 3}, .memory_bytes = 64ull << 30}, &shown);
    sim->run([&] { return sim->gpus->discovered(); });
    return sim;
  }
  static SweepSpec training(const std::string& name, const std::string& exit, int runs = 1) {
    SweepSpec sweep = sweep_of(name, runs);
    sweep.steps.push_back(step_of("train", "10s", exit));
    sweep.steps[0].gpus = 1;
    return sweep;
  }
  /// One job that runs on the first GPU and ends there with this exit code in 9 s.
  std::unique_ptr<Simulation> started(const std::string& exit) {
    std::unique_ptr<Simulation> sim = start();
    EXPECT_TRUE(sim->submit(training("training", exit)));
    sim->run_for(kSecond);
    EXPECT_EQ(sim->job(1).state, JobState::Running);
    return sim;
  }
  std::string state_of(Simulation& sim, int gpu) {
    return sim.gpus->lanes().at(static_cast<std::size_t>(gpu)).state;
  }
  const std::string first = gpu_reading(0).uuid;
  const std::string second = gpu_reading(1).uuid;

  MemoryStore store;
  SimClock clock;
  ShownGpus shown;
  LockFolder locks;
};

TEST_F(GpuHealthTest, AFailureAsksForOneLookMoreThanASuccess) {
  int looks[2] = {};
  for (const int exit : {0, 1}) {
    store.clear();
    std::unique_ptr<Simulation> sim = started(std::to_string(exit));
    shown.looks = 0;
    sim->run_for(60 * kSecond);
    EXPECT_EQ(sim->job(1).last->outcome->exit_code, exit);
    looks[exit] = shown.looks;
  }
  EXPECT_EQ(looks[1], looks[0] + 1);
}

TEST_F(GpuHealthTest, AFaultOfTheGpuMovesTheJobUnchargedAndTheRestStaysAway) {
  std::unique_ptr<Simulation> sim = started("1");
  shown.look.gpus[0].repair_pending = true;
  sim->run([&] { return sim->job(1).last->number == 2; });
  EXPECT_EQ(sim->job(1).retries_used, 0);
  EXPECT_EQ(sim->job(1).moves, 1);
  EXPECT_EQ(sim->job(1).last->placement.gpus, std::vector<std::string>{second});
  EXPECT_EQ(state_of(*sim, 0), "quarantined");
  sim->run_for(60 * kSecond);
  EXPECT_EQ(sim->job(1).state, JobState::Failed) << "the other GPU is in order";
  EXPECT_EQ(sim->job(1).last->outcome->cls, OutcomeClass::Exit);
}

// Its keeper was killed before it could tell how it ended.
TEST_F(GpuHealthTest, WhatHungOnABrokenGpuIsMovedUnchargedAlthoughItsEndIsNotKnown) {
  std::unique_ptr<Simulation> sim = start();
  SweepSpec sweep = training("training", "0");
  sweep.steps[0].fake.duration = "1000s";
  sweep.steps[0].timeout = std::chrono::seconds(5);
  ASSERT_TRUE(sim->submit(sweep));
  sim->run([&] { return sim->job(1).state == JobState::Running; });
  shown.look.xids = {{first, 79, clock.now().boot_ns}};
  sim->run([&] { return sim->job(1).state == JobState::Stopping; });
  sim->core->on_engine(engine_event::Lost{.id = {{1}, 1}, .why = "its keeper was killed"});
  sim->run([&] { return sim->job(1).last->outcome.has_value(); });
  EXPECT_EQ(sim->job(1).last->outcome->cls, OutcomeClass::Hardware);
  EXPECT_EQ(sim->job(1).retries_used, 0);
  EXPECT_EQ(sim->job(1).moves, 1);
  sim->run([&] { return sim->job(1).last->number == 2; });
  EXPECT_EQ(sim->job(1).last->placement.gpus, std::vector<std::string>{second});
}

TEST_F(GpuHealthTest, ACancelWhileItsGpuIsLookedAtIsObeyed) {
  std::unique_ptr<Simulation> sim = started("1");
  shown.answer_after_ns = 2 * kSecond;
  sim->run_for(10 * kSecond);
  ASSERT_EQ(sim->job(1).state, JobState::Running) << "it has ended and is being judged";
  sim->core->cancel({JobId{1}}, false, "cancelled by hand");
  sim->run_for(10 * kSecond);
  EXPECT_EQ(sim->job(1).state, JobState::Cancelled);
  EXPECT_EQ(sim->job(1).attempts, 1);
}

TEST_F(GpuHealthTest, ARestartKeepsAQuarantineAndARebootEndsIt) {
  {
    std::unique_ptr<Simulation> sim = started("0");
    shown.look.xids = {{first, 79, clock.now().boot_ns}};
    sim->run_for(60 * kSecond);
    EXPECT_EQ(sim->job(1).state, JobState::Done) << "it went on";
    EXPECT_EQ(state_of(*sim, 0), "quarantined");
  }
  shown.look.xids.clear();
  {
    std::unique_ptr<Simulation> sim = start();
    EXPECT_EQ(state_of(*sim, 0), "quarantined");
    ASSERT_TRUE(sim->submit(training("second", "0", 3)));
    sim->run_for(600 * kSecond);
    for (const int job : {2, 3, 4}) {
      EXPECT_EQ(sim->job(job).last->placement.gpus, std::vector<std::string>{second});
    }
  }
  std::unique_ptr<Simulation> sim = start("boot-2");
  EXPECT_EQ(state_of(*sim, 0), "free");
}

TEST_F(GpuHealthTest, AnUpdatedDriverHoldsGpuJobsUntilItIsInOrder) {
  std::unique_ptr<Simulation> sim = started("1");
  const GpuLook well = shown.look;
  shown.look = {.why = "of different versions", .driver_mismatch = true};
  sim->run_for(60 * kSecond);
  EXPECT_EQ(sim->job(1).state, JobState::Queued);
  EXPECT_EQ(sim->job(1).last->outcome->cls, OutcomeClass::Driver);
  EXPECT_EQ(sim->job(1).attempts, 1);
  EXPECT_NE(sim->core->why(sim->job(1)).find("the NVIDIA driver was updated"), std::string::npos);
  SweepSpec cpu = sweep_of("cpu", 1);
  cpu.steps.push_back(step_of("main", "1s"));
  ASSERT_TRUE(sim->submit(cpu));
  sim->run_for(10 * kSecond);
  EXPECT_EQ(sim->job(2).state, JobState::Done);
  shown.look = well;
  sim->run_for(200 * kSecond);
  EXPECT_EQ(sim->job(1).attempts, 2);
}

TEST_F(GpuHealthTest, ErrorsAreLearntFromOneJobToTheNext) {
  shown.look.gpus = {gpu_reading(0)};
  std::unique_ptr<Simulation> sim = start();
  ASSERT_TRUE(sim->submit(training("training", "0", 3)));
  sim->run([&] { return sim->job(3).state == JobState::Running; });
  EXPECT_TRUE(shown.stays);
  EXPECT_EQ(shown.rests, 0) << "the next job starts without another look";
  sim->run_for(60 * kSecond);
  EXPECT_EQ(sim->job(3).state, JobState::Done);
  EXPECT_FALSE(shown.stays);
}

TEST_F(GpuHealthTest, AQuarantineThatAResetEndsEndsThoughNoJobWantsTheGpu) {
  std::unique_ptr<Simulation> sim = started("0");
  shown.look.gpus[1].recovery_action = 1;
  sim->run_for(20 * kSecond);
  ASSERT_EQ(sim->job(1).state, JobState::Done);
  ASSERT_EQ(state_of(*sim, 1), "quarantined");
  shown.look.gpus[1].recovery_action = 0;
  sim->run_for(70 * kSecond);
  EXPECT_EQ(state_of(*sim, 1), "free");
}

TEST_F(GpuHealthTest, APersonEndsAQuarantine) {
  shown.look.xids = {{first, 119, 0}};
  std::unique_ptr<Simulation> sim = start();
  shown.look.xids.clear();
  EXPECT_EQ(state_of(*sim, 0), "quarantined");
  EXPECT_EQ(sim->core->release_gpus("1").error().kind, ErrorKind::NotFound);
  const auto released = sim->core->release_gpus("0");
  ASSERT_TRUE(released) << released.error().message;
  EXPECT_EQ(*released, std::vector<std::string>{first});
  sim->run_for(kSecond);
  EXPECT_EQ(state_of(*sim, 0), "free");
}

}  // namespace
}  // namespace pergpu::testing
