// `gpus = "auto"`: jobs whose memory follows a script, on GPUs that show it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "gpu_jobs.h"
#include "job/schedule/gpu_need.h"

namespace pergpu::testing {
namespace {

constexpr std::uint64_t kGiB = 1ull << 30;

/// What a job has of its GPU's memory: half from its start, all after a while.
struct Curve {
  std::uint64_t most_bytes = 0;
  std::int64_t rises_after_ns = 0;
  std::uint64_t at(std::int64_t ns) const {
    return ns < rises_after_ns ? most_bytes / 2 : most_bytes;
  }
};

struct GpuPackingTest : GpuJobsTest {
  GpuPackingTest() {
    shown.look.gpus = {gpu_reading(0)};
    shown.busy_percent = 0;
    shown.before_look = [this] { show_processes(); };
  }
  std::unique_ptr<Simulation> begin() {
    std::unique_ptr<Simulation> sim = start();
    shown_of = sim.get();
    discover(*sim);
    return sim;
  }
  static SweepSpec automatic(int runs, const std::string& duration, const char* name = "first") {
    SweepSpec sweep = training(runs);
    sweep.name = name;
    sweep.steps[0].gpu_auto = true;
    sweep.steps[0].fake.duration = duration;
    return sweep;
  }
  const Curve& curve_of(const Job& job) const {
    const auto its = special.find(job.id.value);
    return its == special.end() ? curve : its->second;
  }
  void show_processes() {
    for (GpuReading& gpu : shown.look.gpus) {
      gpu.processes.clear();
      std::uint64_t used = 0;
      shown_of->world.live_jobs().for_each([&](JobId id) {
        const Job& job = shown_of->job(id.value);
        if (job.state != JobState::Running || job.last->placement.gpus.front() != gpu.uuid) return;
        const std::int64_t runs_for = clock.now().boot_ns - job.last->started_at.boot_ns;
        const std::uint64_t bytes = curve_of(job).at(runs_for);
        gpu.processes.push_back({.pid = job.last->pid, .memory_bytes = bytes});
        used += bytes;
      });
      gpu.used_bytes = used;
      shown.busy_percent = std::min(100, busy_each * static_cast<int>(gpu.processes.size()));
      most_used = std::max(most_used, used);
    }
  }
  static int attempts(const Simulation& sim) {
    int count = 0;
    for (const Job& job : sim.world.jobs()) count += job.last ? job.last->number : 0;
    return count;
  }

  Simulation* shown_of = nullptr;
  Curve curve = {.most_bytes = 19 * kGiB};
  std::map<std::int64_t, Curve> special;
  std::uint64_t most_used = 0;
  int busy_each = 2;  // per cent
};

TEST_F(GpuPackingTest, TheFirstIsAloneUntilItsNeedIsKnownThenOthersJoinIt) {
  std::unique_ptr<Simulation> sim = begin();
  ASSERT_TRUE(sim->submit(automatic(12, "100s")));
  sim->run_for(8 * kSecond);
  EXPECT_EQ(sim->count(JobState::Running), 1);
  EXPECT_EQ(sim->core->why(sim->job(2)),
            "asks for a GPU to itself (what similar jobs need is unknown, or leaves no room), the "
            "only GPU "
            "is in use; 1 of gpu0 is taken by 1 job, with 80 GiB of its memory");
  sim->run_for(12 * kSecond);
  EXPECT_EQ(sim->count(JobState::Running), 4) << "19.6 of 80 GiB each";
  EXPECT_EQ(sim->job(2).last->placement.share, 245);
  sim->run_for(500 * kSecond);
  EXPECT_EQ(sim->count(JobState::Done), 12);
  EXPECT_EQ(attempts(*sim), 12);
}

TEST_F(GpuPackingTest, WhatWasLearntIsKnownToTheNextSweepAndAfterARestart) {
  {
    std::unique_ptr<Simulation> sim = begin();
    ASSERT_TRUE(sim->submit(automatic(120, "20s")));
    sim->run_for(2000 * kSecond);
    ASSERT_EQ(sim->count(JobState::Done), 120);
  }
  std::unique_ptr<Simulation> sim = begin();
  ASSERT_TRUE(sim->submit(automatic(4, "20s", "next")));
  sim->run_for(3 * kSecond);
  EXPECT_EQ(sim->count(JobState::Running), 4);
}

TEST_F(GpuPackingTest, ASweepThatWaitsKnowsWhatAnotherOneWithItsCommandLearns) {
  std::unique_ptr<Simulation> sim = begin();
  ASSERT_TRUE(sim->submit(automatic(1, "100s")));
  ASSERT_TRUE(sim->submit(automatic(3, "100s", "next")));
  sim->run_for(30 * kSecond);
  EXPECT_EQ(sim->count(JobState::Running), 4);
}

TEST_F(GpuPackingTest, WhatJobsTogetherKeepBusyIsNotTakenForOneOfThem) {
  busy_each = 25;
  std::unique_ptr<Simulation> sim = begin();
  ASSERT_TRUE(sim->submit(automatic(60, "30s")));
  sim->run_for(600 * kSecond);
  EXPECT_EQ(sim->count(JobState::Done), 60) << "four at once, after the first";
  EXPECT_EQ(sim->job(60).last->placement.share, 250);
}

TEST_F(GpuPackingTest, ABusyGpuIsNotShared) {
  busy_each = 97;
  std::unique_ptr<Simulation> sim = begin();
  ASSERT_TRUE(sim->submit(automatic(3, "40s")));
  sim->run_for(35 * kSecond);
  EXPECT_EQ(sim->count(JobState::Running), 1);
}

TEST_F(GpuPackingTest, OneThatNeedsMoreThanItsLikeHasItWhereItIsThere) {
  special[1] = {.most_bytes = 30 * kGiB, .rises_after_ns = 50 * kSecond};  // 15 at first
  curve = {.most_bytes = 15 * kGiB};
  std::unique_ptr<Simulation> sim = begin();
  ASSERT_TRUE(sim->submit(automatic(2, "100s")));
  sim->run_for(20 * kSecond);
  ASSERT_EQ(sim->count(JobState::Running), 2);
  sim->run_for(200 * kSecond);
  EXPECT_EQ(sim->count(JobState::Done), 2);
  EXPECT_EQ(attempts(*sim), 2);
}

TEST_F(GpuPackingTest, WhereItIsNotThereThatOneIsStartedAgainAtNoChargeAndNoOtherEnds) {
  special[3] = {.most_bytes = 38 * kGiB, .rises_after_ns = 50 * kSecond};
  std::unique_ptr<Simulation> sim = begin();
  ASSERT_TRUE(sim->submit(automatic(8, "100s")));
  sim->run_for(20 * kSecond);
  ASSERT_EQ(sim->count(JobState::Running), 4);
  sim->run_for(1000 * kSecond);
  EXPECT_EQ(sim->count(JobState::Done), 8);
  EXPECT_EQ(sim->job(3).last->number, 2);
  EXPECT_EQ(sim->job(3).retries_used, 0);
  EXPECT_EQ(sim->job(3).last->placement.promise_bytes, 2 * promise_of(19 * kGiB));
  EXPECT_EQ(attempts(*sim), 9);
}

/// Jobs over small models and large ones.
struct ShapedPackingTest : GpuPackingTest {
  ShapedPackingTest() { curve = {.most_bytes = 9 * kGiB}; }
  /// One run for each letter: S is a small model (0), L a large one (1), which has 38 GiB.
  SweepSpec over_models(const std::string& models, const std::string& duration,
                        const char* name = "first") {
    SweepSpec sweep = automatic(0, duration, name);
    for (const char model : models) {
      sweep.runs.push_back(
          {.json = fmt::format(R"({{"model":{},"seed":{}}})", model == 'L' ? 1 : 0, seeds++)});
      ++jobs;
      if (model == 'L') special[jobs] = {.most_bytes = 38 * kGiB};
    }
    sweep.columns = {"model", "seed"};
    return sweep;
  }
  static std::uint64_t promised(Simulation& sim, std::int64_t job) {
    return sim.job(job).last ? sim.job(job).last->placement.promise_bytes : 0;
  }
  int seeds = 0;
  std::int64_t jobs = 0;
};

TEST_F(ShapedPackingTest, WhatWaitsAlreadyIsPromisedWhatItsShapeNeedsOnceThatIsKnown) {
  std::unique_ptr<Simulation> sim = begin();
  ASSERT_TRUE(sim->submit(over_models("LSSSSSSSSSSSSSSSSSSS", "30s")));
  sim->run_for(20 * kSecond);
  EXPECT_EQ(sim->count(JobState::Running), 2) << "two large ones would have room";
  sim->run_for(100 * kSecond);
  EXPECT_EQ(promised(*sim, 20), promise_of(9 * kGiB));
  sim->run_for(200 * kSecond);
  EXPECT_EQ(sim->count(JobState::Done), 20);
  EXPECT_EQ(attempts(*sim), 20);
}

TEST_F(ShapedPackingTest, ARetryInASweepThatHadEndedKnowsWhatOthersHaveLearnt) {
  std::unique_ptr<Simulation> sim = begin();
  SweepSpec first = over_models("SSL", "8s");
  first.steps[0].fake.exit = "{model}";
  special[3].rises_after_ns = 9 * kSecond;  // it fails before that
  ASSERT_TRUE(sim->submit(first));
  sim->run([&] { return sim->world.sweeps().begin()->second.open == 0; });
  ASSERT_EQ(sim->job(3).state, JobState::Failed);
  EXPECT_LT(promised(*sim, 3), promise_of(38 * kGiB));
  ASSERT_TRUE(sim->submit(over_models("LSL", "20s", "next")));
  sim->run([&] { return sim->count(JobState::Done) == 5; });
  sim->core->retry({JobId{3}});
  sim->run([&] { return sim->job(3).last->number == 2 && is_ended(sim->job(3).state); });
  EXPECT_EQ(promised(*sim, 3), promise_of(38 * kGiB));
}

TEST_F(ShapedPackingTest, WhatAnEndedJobAskedForIsToldAsOfItsShape) {
  std::unique_ptr<Simulation> sim = begin();
  ASSERT_TRUE(sim->submit(over_models("LSS", "20s")));
  sim->run([&] { return sim->count(JobState::Done) == 3; });
  EXPECT_EQ(sim->core->asked_by(sim->job(1)).promise_bytes, promise_of(38 * kGiB));
  EXPECT_EQ(sim->core->asked_by(sim->job(3)).promise_bytes, promise_of(9 * kGiB));
}

/// How many have room on a GPU at once.
int most_together(std::uint64_t bytes) {
  int each = 1;
  while ((each + 1) * promise_of(bytes) <= 80 * kGiB) ++each;
  return each;
}

/// Of jobs that are all alike: some number of them at once on each GPU, in as many rounds as that
/// takes; the best of all numbers.
std::int64_t best_makespan(int jobs, int gpus, std::uint64_t bytes, std::int64_t duration_ns) {
  std::int64_t best = jobs * duration_ns;
  for (int each = 1; each <= most_together(bytes); ++each) {
    const int at_once = each * gpus;
    best = std::min(best, (jobs + at_once - 1) / at_once * duration_ns);
  }
  return best;
}

// Cases are drawn here: with as many as other properties have it would take minutes.
struct DrawnPackingTest : GpuPackingTest, ::testing::WithParamInterface<unsigned> {};

TEST_P(DrawnPackingTest, EndsWithinATenthOfTheBestPackingAndStopsNobody) {
  std::mt19937 dice(GetParam());
  const auto draw = [&](int from, int to) { return std::uniform_int_distribution(from, to)(dice); };
  const int gpus = draw(1, 2);
  const int seconds = draw(50, 90);
  curve = {.most_bytes = static_cast<std::uint64_t>(draw(10, 79)) * kGiB,
           .rises_after_ns = draw(0, 4) * kSecond};
  const int at_once = gpus * most_together(curve.most_bytes);
  const int jobs = draw(15, 20) * at_once - draw(0, at_once - 1);
  shown.look.gpus.clear();
  for (int i = 0; i < gpus; ++i) shown.look.gpus.push_back(gpu_reading(i));
  std::unique_ptr<Simulation> sim = begin();
  ASSERT_TRUE(sim->submit(automatic(jobs, std::to_string(seconds) + "s")));
  const std::int64_t began = clock.ns;
  sim->run([&] { return sim->world.sweeps().begin()->second.open == 0; });
  EXPECT_EQ(sim->count(JobState::Done), jobs);
  EXPECT_EQ(attempts(*sim), jobs) << "nobody was stopped";
  EXPECT_LE(most_used, 80 * kGiB);
  const std::int64_t best = best_makespan(jobs, gpus, curve.most_bytes, seconds * kSecond);
  EXPECT_LE(clock.ns - began, best + best / 10)
      << jobs << " jobs of " << seconds << " s and " << curve.most_bytes / kGiB << " GiB, " << gpus
      << " GPUs";
}

INSTANTIATE_TEST_SUITE_P(Seeds, DrawnPackingTest, ::testing::Range(0u, 16u));

}  // namespace
}  // namespace pergpu::testing
