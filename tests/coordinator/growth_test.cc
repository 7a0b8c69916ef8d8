// Attempts that had too little memory: ended at the limit, tried again with more.
#include "lock_folder.h"
#include "simulation.h"

namespace pergpu::testing {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

struct GrowthTest : ::testing::Test {
  GrowthTest() {
    shown.look.in_container = true;  // so that what is used counts, whoever uses it
    shown.look.gpus = {gpu_reading(0)};
  }
  std::unique_ptr<Simulation> start() {
    auto sim = std::make_unique<Simulation>(
        store, clock, "boot-1", Machine{.cores = {0, 1, 2, 3}, .memory_bytes = 64 * kGiB}, &shown);
    sim->run([&] { return sim->gpus->discovered(); });
    return sim;
  }
  static SweepSpec one_job(const std::string& exit = "0") {
    SweepSpec sweep = sweep_of("growing", 1);
    sweep.steps.push_back(step_of("main", "1000s", exit));
    StepSpec& step = sweep.steps[0];
    step.memory_bytes = 10 * kGiB;
    step.retries = {.max = 2};
    step.grow.memory = 1.5;
    return sweep;
  }
  static SweepSpec on_gpu() {
    SweepSpec sweep = one_job();
    StepSpec& step = sweep.steps[0];
    step.gpus = 1;
    step.gpu_memory_bytes = 20 * kGiB;
    step.grow.gpu_memory = 1.5;
    return sweep;
  }
  void uses(std::uint64_t bytes) { shown.look.gpus[0].used_bytes = bytes; }
  static void pass_memory(Simulation& sim, int attempt) {
    sim.run(
        [&] { return sim.job(1).state == JobState::Running && sim.job(1).attempts == attempt; });
    sim.core->on_engine(engine_event::MemoryExceeded{.id = {{1}, attempt}, .bytes = 33 * kGiB});
    sim.turn();
  }

  MemoryStore store;
  SimClock clock;
  ShownGpus shown;
  LockFolder locks;
};

TEST_F(GrowthTest, TheNextAttemptHasMoreMemoryAndWhySaysIt) {
  std::unique_ptr<Simulation> sim = start();
  ASSERT_TRUE(sim->submit(one_job()));
  pass_memory(*sim, 1);
  sim->run([&] { return sim->job(1).state == JobState::Queued; });
  EXPECT_EQ(sim->core->asked_by(sim->job(1)).memory_bytes, 15 * kGiB);
  const std::string why = sim->core->why(sim->job(1));
  EXPECT_NE(why.find("memory 33 GiB exceeded its limit of 10 GiB"), std::string::npos) << why;
  EXPECT_NE(why.find("its next attempt has 15 GiB of memory"), std::string::npos) << why;
  pass_memory(*sim, 2);
  sim->run();
  EXPECT_EQ(sim->job(1).attempts, 3);
  EXPECT_EQ(sim->job(1).state, JobState::Done);
  EXPECT_EQ(sim->core->asked_by(sim->job(1)).memory_bytes, 22 * kGiB + kGiB / 2);
}

TEST_F(GrowthTest, ARestartForgetsNoGrowthAndANewSubmitDoes) {
  {
    std::unique_ptr<Simulation> sim = start();
    ASSERT_TRUE(sim->submit(one_job("1")));
    pass_memory(*sim, 1);
    sim->run([&] { return sim->job(1).attempts == 2; });
  }
  std::unique_ptr<Simulation> sim = start();
  EXPECT_EQ(sim->core->asked_by(sim->job(1)).memory_bytes, 15 * kGiB);
  sim->run();
  ASSERT_EQ(sim->job(1).state, JobState::Failed);
  sim->core->retry({JobId{1}});
  sim->turn();
  EXPECT_EQ(sim->core->asked_by(sim->job(1)).memory_bytes, 10 * kGiB);
}

TEST_F(GrowthTest, AJobAboveItsGpuMemoryIsEndedAndHasMoreNextTime) {
  std::unique_ptr<Simulation> sim = start();
  ASSERT_TRUE(sim->submit(on_gpu()));
  sim->run_for(5 * kSecond);
  ASSERT_EQ(sim->job(1).state, JobState::Running);
  uses(21 * kGiB);  // within the margin
  sim->run_for(10 * kSecond);
  EXPECT_EQ(sim->job(1).state, JobState::Running);
  uses(22 * kGiB);
  sim->run([&] { return sim->job(1).last->outcome.has_value(); });
  EXPECT_EQ(sim->job(1).last->outcome->cls, OutcomeClass::GpuMemory);
  EXPECT_EQ(sim->job(1).last->outcome->reason, "GPU memory 22 GiB exceeded its limit of 20 GiB");
  uses(0);
  sim->run([&] { return sim->job(1).attempts == 2; });
  EXPECT_EQ(sim->core->asked_by(sim->job(1)).gpu_memory_bytes, 30 * kGiB);
  uses(22 * kGiB);
  sim->run_for(1100 * kSecond);
  EXPECT_EQ(sim->job(1).state, JobState::Done);
  EXPECT_EQ(sim->job(1).attempts, 2);
}

TEST_F(GrowthTest, AMomentAboveIsForgiven) {
  std::unique_ptr<Simulation> sim = start();
  ASSERT_TRUE(sim->submit(on_gpu()));
  sim->run_for(5 * kSecond);
  for (int i = 0; i < 5; ++i) {
    uses(22 * kGiB);
    sim->run_for(kSecond);
    uses(kGiB);
    sim->run_for(kSecond);
  }
  EXPECT_EQ(sim->job(1).state, JobState::Running);
}

TEST_F(GrowthTest, NobodyLooksAtGpusOfJobsWithoutALimit) {
  std::unique_ptr<Simulation> sim = start();
  SweepSpec sweep = on_gpu();
  sweep.steps[0].gpu_memory_bytes.reset();
  ASSERT_TRUE(sim->submit(sweep));
  sim->run_for(5 * kSecond);
  shown.looks = 0;
  sim->run_for(60 * kSecond);
  EXPECT_EQ(shown.looks, 0);
}

TEST_F(GrowthTest, AGpuThatIsTooSmallIsSaidAtTheSubmit) {
  std::unique_ptr<Simulation> sim = start();
  SweepSpec sweep = on_gpu();
  sweep.steps[0].gpu_memory_bytes = 100 * kGiB;
  const Result<SubmitReply> reply = sim->submit(sweep);
  ASSERT_FALSE(reply);
  EXPECT_NE(reply.error().message.find("asks for 1 GPU with 100 GiB of memory"), std::string::npos)
      << reply.error().message;
}

}  // namespace
}  // namespace pergpu::testing
