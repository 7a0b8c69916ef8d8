// Jobs that share GPUs, as looks, leases and other users have it.
#include <sys/file.h>

#include "gpu_jobs.h"
#include "slurm/cluster_fit.h"

namespace pergpu::testing {
namespace {

struct GpuShareTest : GpuJobsTest {
  static SweepSpec sharing(int thousandths, int runs, const char* name = "sharing") {
    SweepSpec sweep = training(runs);
    sweep.name = name;
    sweep.steps[0].gpu_share = thousandths;
    return sweep;
  }
  static std::vector<std::string> lanes_of_live(const Simulation& sim) {
    std::vector<std::string> lanes;
    for (const Job& job : sim.world.jobs()) {
      if (is_live(job.state)) lanes.push_back(to_string(job.last->placement.lane));
    }
    return lanes;
  }
  bool is_leased(int gpu) { return !locks.other_user().take(gpu_reading(gpu).uuid); }
};

TEST_F(GpuShareTest, JobsShareTheGpusAndTheirLeases) {
  std::unique_ptr<Simulation> sim = start();
  discover(*sim);
  ASSERT_TRUE(sim->submit(sharing(500, 5)));
  sim->run_for(kSecond);
  EXPECT_EQ(lanes_of_live(*sim), (std::vector<std::string>{"gpu0", "gpu1", "gpu0.1", "gpu1.1"}));
  EXPECT_EQ(sim->job(1).last->placement.share, 500);
  EXPECT_EQ(sim->job(1).last->placement.cpus, 1) << "half of its GPU's two cores";
  EXPECT_EQ(
      sim->core->why(sim->job(5)),
      "asks for 0.5 of a GPU, all 2 GPUs are in use; 1 of gpu0 is taken by 2 jobs, with 80 GiB "
      "of its memory");
  const std::vector<GpuSnapshot> gpus = sim->gpus->gpus();
  EXPECT_EQ(gpus[0].lanes, (std::vector<std::string>{"gpu0", "gpu0.1"}));
  EXPECT_EQ(gpus[0].state, "busy");
  EXPECT_EQ(sim->gpus->lanes().size(), 4u);
  EXPECT_TRUE(is_leased(0) && is_leased(1));
  sim->run_for(60 * kSecond);
  EXPECT_EQ(sim->count(JobState::Done), 5);
  EXPECT_FALSE(is_leased(0) || is_leased(1));
}

TEST_F(GpuShareTest, PartsOfOneThatRunsAreItsOwnAgainAfterARestart) {
  {
    std::unique_ptr<Simulation> before = start();
    discover(*before);
    ASSERT_TRUE(before->submit(sharing(400, 6)));
    before->run_for(kSecond);
    ASSERT_EQ(before->count(JobState::Running), 4);
  }
  std::unique_ptr<Simulation> after = start();
  discover(*after);
  EXPECT_EQ(after->job(3).last->placement.share, 400);
  EXPECT_EQ(to_string(after->job(3).last->placement.lane), "gpu0.1");
  after->run_for(120 * kSecond);
  EXPECT_EQ(after->count(JobState::Done), 6);
  EXPECT_FALSE(is_leased(0) || is_leased(1));
}

TEST_F(GpuShareTest, NobodyJoinsWhereSomebodyElseComputes) {
  std::unique_ptr<Simulation> sim = start();
  discover(*sim);
  ASSERT_TRUE(sim->submit(sharing(250, 2)));
  sim->run_for(kSecond);
  ASSERT_EQ(sim->count(JobState::Running), 2);
  show_foreign_processes(true);
  ASSERT_TRUE(sim->submit(sharing(250, 2, "more")));
  sim->run_for(kSecond);
  EXPECT_EQ(sim->count(JobState::Running), 2);
  EXPECT_NE(sim->core->why(sim->job(3)).find("python3, pid 4711"), std::string::npos)
      << sim->core->why(sim->job(3));
  show_foreign_processes(false);
  sim->run_for(4 * kSecond);
  EXPECT_EQ(sim->count(JobState::Running), 4);
}

TEST_F(GpuShareTest, AGpuThatAnotherUserWaitsForIsJoinedByNobodyAndGiven) {
  shown.look.gpus = {gpu_reading(0)};
  std::unique_ptr<Simulation> sim = start();
  discover(*sim);
  ASSERT_TRUE(sim->submit(sharing(250, 40)));
  sim->run_for(kSecond);
  ASSERT_EQ(sim->count(JobState::Running), 4);
  const gpu::LeaseFolder other = locks.other_user();
  Result<os::UniqueFd> wanted = other.open_wanted(gpu_reading(0).uuid);
  ASSERT_TRUE(wanted);
  ASSERT_EQ(::flock(wanted->get(), LOCK_SH | LOCK_NB), 0);  // they wait for it
  sim->run_for(11 * kSecond);
  EXPECT_EQ(sim->count(JobState::Done), 4);
  EXPECT_EQ(sim->count(JobState::Running), 0);
  EXPECT_TRUE(other.take(gpu_reading(0).uuid));
}

TEST_F(GpuShareTest, AJobForAWholeGpuDoesNotWaitForEver) {
  shown.look.gpus = {gpu_reading(0)};
  std::unique_ptr<Simulation> sim = start();
  discover(*sim);
  SweepSpec parts = sharing(250, 200);
  parts.steps[0].fake.duration = "{n}s";
  parts.runs.clear();
  for (int i = 0; i < 200; ++i) {
    parts.runs.push_back(
        {.json = "{\"n\":" + std::to_string(7 + i % 5) + ",\"x\":" + std::to_string(i) + "}"});
  }
  parts.columns = {"n", "x"};
  ASSERT_TRUE(sim->submit(parts));
  sim->run_for(kSecond);
  SweepSpec whole = training(1);
  whole.steps[0].priority = 1;
  ASSERT_TRUE(sim->submit(whole));
  sim->run_for(150 * kSecond);
  EXPECT_EQ(sim->job(201).state, JobState::Done) << sim->core->why(sim->job(201));
  EXPECT_GT(sim->count(JobState::Queued), 80);
}

TEST_F(GpuShareTest, TheOneThatOutgrowsItsPartIsEnded) {
  shown.look.gpus = {gpu_reading(0)};
  std::unique_ptr<Simulation> sim = start();
  discover(*sim);
  ASSERT_TRUE(sim->submit(sharing(250, 2)));
  sim->run_for(kSecond);
  ASSERT_EQ(sim->count(JobState::Running), 2);
  GpuReading& gpu = shown.look.gpus[0];
  gpu.processes = {{.pid = sim->job(1).last->pid, .memory_bytes = 19ull << 30},
                   {.pid = sim->job(2).last->pid, .memory_bytes = 21ull << 30}};
  gpu.used_bytes = 40ull << 30;
  sim->run_for(4 * kSecond);
  EXPECT_EQ(sim->job(1).state, JobState::Running);
  EXPECT_EQ(sim->job(2).state, JobState::Failed);
  EXPECT_EQ(sim->job(2).last->outcome->cls, OutcomeClass::GpuMemory);
  EXPECT_EQ(sim->job(2).reason, "GPU memory 21 GiB on gpu0 exceeded its share of 20 GiB");
}

TEST_F(GpuShareTest, OfOneWithALimitThatCounts) {
  shown.look.gpus = {gpu_reading(0)};
  std::unique_ptr<Simulation> sim = start();
  discover(*sim);
  SweepSpec sweep = sharing(100, 4);
  sweep.steps[0].gpu_memory_bytes = 30ull << 30;
  ASSERT_TRUE(sim->submit(sweep));
  sim->run_for(kSecond);
  EXPECT_EQ(sim->count(JobState::Running), 2) << "31.9 GiB each";
  shown.look.gpus[0].processes = {{.pid = sim->job(1).last->pid, .memory_bytes = 33ull << 30}};
  sim->run_for(4 * kSecond);
  EXPECT_EQ(sim->job(1).reason, "GPU memory 33 GiB exceeded its limit of 30 GiB");
  EXPECT_EQ(sim->job(2).state, JobState::Running);
}

TEST_F(GpuShareTest, IsNotAskedOfASlurmCluster) {
  const Result<void> refused = check_for_cluster(sharing(250, 1));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("gpus = 0.25: Slurm allocates only whole GPUs"),
            std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace pergpu::testing
