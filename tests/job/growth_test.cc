// What `grow` makes of limits, and that jobs with more are a class of their own.
#include "job/growth.h"

#include <gtest/gtest.h>

#include "job/builders.h"
#include "job/retry.h"
#include "job/schedule/schedule.h"

namespace pergpu {
namespace {

constexpr std::uint64_t kGib = std::uint64_t{1} << 30;
constexpr StepKey kStep{.sweep = {1}, .step = 0};

StepSpec growing() {
  StepSpec step;
  step.memory_bytes = 10 * kGib;
  step.gpu_memory_bytes = 20 * kGib;
  step.grow = {.memory = 1.5, .gpu_memory = 2};
  step.retries = {.max = 2, .on = {OutcomeClass::Exit}};
  return step;
}

Next next_of(const StepSpec& step, OutcomeClass cls, int retries_used = 0) {
  Job job = testing_jobs::running_job();
  job.retries_used = static_cast<std::int16_t>(retries_used);
  return decide_next(job, step, Outcome{.cls = cls, .reason = "why"});
}

TEST(Grown, IsTheDeclaredTimesTheFactorForEachGrowth) {
  EXPECT_EQ(grown(100, 1.5, 0, 0), 100u);
  EXPECT_EQ(grown(100, 1.5, 1, 0), 150u);
  EXPECT_EQ(grown(100, 1.5, 2, 0), 225u);
  EXPECT_EQ(grown(100, 0, 2, 0), 100u) << "`grow` does not name it any more";
}

TEST(Grown, EndsAtWhatTheMachineHas) {
  EXPECT_EQ(grown(100, 2, 3, 300), 300u);
  EXPECT_EQ(grown(100, 2, 3, 50), 100u) << "never less than was declared";
  EXPECT_EQ(grown(kGib, 10, 127, 0), std::uint64_t{9'000'000'000'000'000'000u});
}

TEST(Grow, TooLittleMemoryIsTriedAgainWithMoreWhateverOnSays) {
  const Next host = next_of(growing(), OutcomeClass::OomHost);
  EXPECT_EQ(host.kind, Next::Kind::Again);
  EXPECT_TRUE(host.charged);
  EXPECT_TRUE(host.more_memory);
  EXPECT_FALSE(host.more_gpu_memory);
  for (const OutcomeClass cls : {OutcomeClass::OomGpu, OutcomeClass::GpuMemory}) {
    const Next gpu = next_of(growing(), cls);
    EXPECT_EQ(gpu.kind, Next::Kind::Again);
    EXPECT_FALSE(gpu.more_memory);
    EXPECT_TRUE(gpu.more_gpu_memory);
  }
}

TEST(Grow, OtherFailuresGetNoMore) {
  const Next next = next_of(growing(), OutcomeClass::Exit);
  EXPECT_EQ(next.kind, Next::Kind::Again);
  EXPECT_FALSE(next.more_memory || next.more_gpu_memory);
}

TEST(Grow, EndsWithTheRetries) {
  EXPECT_EQ(next_of(growing(), OutcomeClass::OomHost, 2).kind, Next::Kind::Final);
}

TEST(Grow, DoesNothingWithoutALimitThatCouldGrow) {
  StepSpec step = growing();
  step.memory_bytes.reset();
  step.gpu_memory_bytes.reset();
  EXPECT_EQ(next_of(step, OutcomeClass::OomHost).kind, Next::Kind::Final);
  EXPECT_EQ(next_of(step, OutcomeClass::OomGpu).kind, Next::Kind::Final);
}

struct GrownJobs : ::testing::Test {
  GrownJobs() {
    Demand demand = demand_of(growing(), LaneId::Pool::Cpu);
    demand.max_parallel = 4;
    demand.most_memory = 14 * kGib;
    queue.declare(kStep, demand);
    capacity.cpu_lanes.size = 8;
    capacity.memory_bytes = 26 * kGib;
  }
  void add(std::int64_t id, Growths growths = {}) {
    queue.insert({.id = {id}, .step = kStep, .run = 0, .growths = growths});
  }
  std::int64_t start() {
    const std::optional<Choice> choice = choose(queue, capacity);
    if (!choice) return 0;
    queue.take(choice->job, choice->overtaken);
    capacity.occupy(kStep, *queue.demand(choice->job.key()), choice->lane, {}, "");
    return choice->job.id.value;
  }
  ReadyQueue queue;
  Capacity capacity;
};

TEST_F(GrownJobs, ReserveWhatTheyAreGiven) {
  add(1, {.memory = 1});
  EXPECT_EQ(start(), 1);
  EXPECT_EQ(capacity.reserved_memory, 14 * kGib) << "15 GiB, but the machine is said to have 14";
}

TEST_F(GrownJobs, DoNotKeepTheOthersOfTheirStepWaiting) {
  add(1, {.memory = 1});
  add(2, {.memory = 1});
  add(3);
  EXPECT_EQ(queue.size(kStep), 3u);
  EXPECT_EQ(start(), 1);
  EXPECT_EQ(start(), 3) << "24 of 26 GiB";
  EXPECT_EQ(start(), 0);
  EXPECT_EQ(why_not(queue, {kStep, {.memory = 1}}, capacity),
            "asks for 14 GiB of memory, but 24 GiB of 26 GiB are reserved");
}

TEST_F(GrownJobs, CountForTheirStep) {
  capacity.memory_bytes = 0;
  for (std::int64_t id = 1; id <= 3; ++id) add(id);
  for (std::int64_t id = 4; id <= 6; ++id) add(id, {.memory = 1});
  int started = 0;
  while (start() != 0) ++started;
  EXPECT_EQ(started, 4) << "max_parallel";
}

TEST_F(GrownJobs, FollowANewDeclaration) {
  add(1, {.memory = 1});
  Demand demand = demand_of(growing(), LaneId::Pool::Cpu);
  demand.memory_bytes = 2 * kGib;
  queue.declare(kStep, demand);
  EXPECT_EQ(queue.demand({kStep, {.memory = 1}})->memory_bytes, 3 * kGib);
}

TEST(GpuMemory, KeepsAJobFromAGpuThatHasLess) {
  ReadyQueue queue;
  Capacity capacity;
  for (const int gib : {16, 80}) {
    capacity.gpus.push_back({.id = {.pool = LaneId::Pool::Gpu, .slot = gib},
                             .uuid = "GPU-" + std::to_string(gib),
                             .name = "GPU",
                             .memory_bytes = static_cast<std::uint64_t>(gib) * kGib});
  }
  Demand demand{.step_name = "train", .pool = LaneId::Pool::Gpu, .gpus = 1};
  demand.gpu_memory_bytes = 20 * kGib;
  queue.declare(kStep, demand);
  queue.insert({.id = {1}, .step = kStep});
  EXPECT_EQ(choose(queue, capacity)->gpus, std::vector<std::string>{"GPU-80"});
  EXPECT_EQ(never_fits(demand, capacity), "");
  demand.gpu_memory_bytes = 100 * kGib;
  queue.declare(kStep, demand);
  EXPECT_FALSE(choose(queue, capacity));
  EXPECT_EQ(why_not(queue, kStep, capacity),
            "there is no GPU with 100 GiB of memory that it can use");
  EXPECT_EQ(
      never_fits(demand, capacity),
      "asks for 1 GPU with 100 GiB of memory, but can use 0 of this machine's 2: GPU (16 GiB), "
      "GPU (80 GiB)");
}

}  // namespace
}  // namespace pergpu
