// Jobs that want several GPUs: when room is kept for them, and to whom it is lent meanwhile.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>

#include "gpu_machine.h"
#include "job/gpu_slot.h"

namespace pergpu {
namespace {

const StepKey kWide{.sweep = {1}};
const StepKey kNarrow{.sweep = {2}};

/// One that wants two of two GPUs and was overtaken so often that room is kept for it.
struct WideJob : ::testing::Test {
  WideJob() : m(2) {
    m.queue.declare(kWide, on_gpus("wide", 2));
    m.queue.declare(kNarrow, on_gpus("narrow", 1));
    m.add(kNarrow, 100);
    first = *m.start();
    wide = m.add(kWide);
    overtake(kMaxOvertaken);
  }
  void overtake(int times) {
    for (int i = 0; i < times; ++i) {
      m.add(kNarrow, 1);
      const std::optional<Choice> small = m.start();
      ASSERT_TRUE(small);
      ASSERT_EQ(small->job.step, kNarrow);
      m.end(*small);
    }
  }
  Machine m;
  Choice first;
  JobId wide;
};

TEST(InstancesOfAGpu, AreForJobsWithOneGpu) {
  Machine m(3);
  m.capacity.gpus[0].id.slot = slot_of({.gpu = 0, .instance = 0});
  m.capacity.gpus[1].id.slot = slot_of({.gpu = 0, .instance = 1});
  const StepKey one{{1}, 0};
  const StepKey two{{2}, 0};
  m.queue.declare(one, on_gpus("one", 1));
  m.queue.declare(two, on_gpus("two", 2));
  EXPECT_NE(never_fits(*m.queue.demand(two), m.capacity), "");
  EXPECT_EQ(never_fits(*m.queue.demand(one), m.capacity), "");
  m.add(two);
  m.add(one);
  const std::optional<Choice> choice = m.start();
  ASSERT_TRUE(choice);
  EXPECT_EQ(to_string(choice->lane), "gpu0:0");
  EXPECT_FALSE(m.start()) << "one GPU and another instance are not two GPUs";
}

TEST_F(WideJob, GetsTheNextGpusThatAreFree) {
  m.add(kNarrow);
  EXPECT_FALSE(m.start());
  EXPECT_EQ(why_not(m.queue, kNarrow, m.capacity),
            "1 of 2 GPUs in use; free resources are reserved for step wide, which other jobs have "
            "bypassed too "
            "often");
  EXPECT_EQ(why_not(m.queue, kWide, m.capacity),
            "asks for 2 GPUs, 1 of 2 GPUs in use; 1 is reserved for it");
  m.end(first);
  const std::optional<Choice> choice = m.start();
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->job.id, wide);
  EXPECT_EQ(choice->gpus, (std::vector<std::string>{"GPU-0", "GPU-1"}));
  EXPECT_EQ(to_string(choice->lane), "gpu0");
}

TEST_F(WideJob, LendsItsGpuToWhatIsOverBeforeTheOtherIsFree) {
  const JobId long_one = m.add(kNarrow, 101);
  EXPECT_FALSE(m.start()) << "the other one is free in 100 ns";
  const JobId short_one = m.add(kNarrow, 100);
  const std::optional<Choice> lent = m.start();
  ASSERT_TRUE(lent);
  EXPECT_EQ(lent->job.id, short_one) << "although it is not the first of its class";
  m.end(*lent);
  m.capacity.now_ns += 60;
  m.add(kNarrow, 41);
  EXPECT_FALSE(m.start());
  m.end(first);
  EXPECT_EQ(m.start()->job.id, wide);
  EXPECT_GT(long_one.value, 0);
}

TEST_F(WideJob, LendsNothingToWhatMayTakeForEver) {
  m.add(kNarrow);
  EXPECT_FALSE(m.start());
}

TEST_F(WideJob, LendsNothingWhileNobodyKnowsWhenTheOtherIsFree) {
  m.capacity.gpus[0].free_at_ns = 0;
  m.add(kNarrow, 1);
  EXPECT_FALSE(m.start());
}

TEST_F(WideJob, LendsNothingWhenTheOtherIsLate) {
  m.capacity.now_ns += 200;
  m.add(kNarrow, 1);
  EXPECT_FALSE(m.start());
}

TEST_F(WideJob, LendsNoMoreWhenItHasDoneSoOften) {
  overtake(kMaxOvertaken);
  m.add(kNarrow, 1);
  EXPECT_FALSE(m.start());
}

TEST_F(WideJob, LendsNothingWhileOneThatItWaitsForIsBeingCleared) {
  m.capacity.gpus.push_back({.id = {.pool = LaneId::Pool::Gpu, .slot = 2},
                             .uuid = "GPU-2",
                             .name = "NVIDIA H100",
                             .busy = "runs job 99",
                             .ends = true,
                             .free_at_ns = m.capacity.now_ns + 1'000'000});
  m.capacity.gpus[0].free_at_ns = m.capacity.now_ns;  // what fill() says of such a one
  m.add(kNarrow, 1);
  EXPECT_FALSE(m.start());
}

TEST_F(WideJob, KeepsNoCpusWhileItGathersGpus) {
  m.capacity.cpus = 8;
  Demand wide_demand = on_gpus("wide", 2);
  wide_demand.cpus = 8;
  m.queue.declare(kWide, wide_demand);
  m.capacity.cpu_lanes.size = 2;
  const StepKey cpu{.sweep = {3}};
  m.queue.declare(cpu, {.step_name = "cpu", .cpus = 4});
  m.add(cpu);
  const std::optional<Choice> small = m.start();
  ASSERT_TRUE(small);
  EXPECT_EQ(small->job.step, cpu);
  m.end(first);
  m.add(cpu);
  m.add(kNarrow);
  EXPECT_FALSE(m.start()) << "it has its GPUs, and waits for cpus";
  m.end(*small);
  EXPECT_EQ(m.start()->job.id, wide);
}

TEST_F(WideJob, LeavesAGpuAloneThatIsInDoubt) {
  m.end(first);
  m.capacity.gpus[0].doubtful = true;
  EXPECT_TRUE(m.queue.overtaken(kWide) >= kMaxOvertaken);
  const JobId narrow = m.add(kNarrow);
  const std::optional<Choice> choice = m.start();
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->job.id, narrow) << "nothing is kept for what cannot be had";
  EXPECT_EQ(choice->gpus, std::vector<std::string>{"GPU-1"}) << "rather than the one in doubt";
}

TEST_F(WideJob, ThatDidNotStartWasNotServed) {
  m.end(first);
  const std::optional<Choice> choice = choose(m.queue, m.capacity);
  ASSERT_TRUE(choice);
  ASSERT_EQ(choice->job.id, wide);
  const int before = m.queue.overtaken(kWide);
  m.queue.take(choice->job, choice->overtaken);
  m.queue.untake(choice->job, before, choice->overtaken);
  EXPECT_EQ(m.queue.overtaken(kWide), 0) << "it may have been cancelled meanwhile";
  m.queue.insert(choice->job);
  m.queue.untake(choice->job, before, choice->overtaken);
  EXPECT_EQ(m.queue.overtaken(kWide), before);
}

TEST_F(WideJob, NothingIsKeptWhileSomebodyElseHasAGpuItNeeds) {
  m.end(first);
  m.capacity.gpus[1].busy = "used by alice (pergpu)";
  const JobId narrow = m.add(kNarrow);
  const std::optional<Choice> choice = m.start();
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->job.id, narrow) << "nobody knows when alice is done";
}

TEST_F(WideJob, WhatRunsElsewhereDoesNotOvertakeIt) {
  m.capacity.cpu_lanes.size = 1;
  const StepKey cpu{.sweep = {3}};
  m.queue.declare(cpu, {.step_name = "cpu"});
  m.add(cpu);
  const std::optional<Choice> choice = m.start();
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->job.step, cpu);
  EXPECT_TRUE(choice->overtaken.empty());
}

TEST(WideJobs, OfSeveralModelsTakeGpusOfTheOneTheyName) {
  Machine m(4);
  for (const std::size_t i : {1u, 3u}) m.capacity.gpus[i].name = "NVIDIA A100";
  Demand demand = on_gpus("wide", 2);
  demand.gpu_pattern = "*A100*";
  m.queue.declare(kWide, demand);
  m.add(kWide);
  EXPECT_EQ(m.start()->gpus, (std::vector<std::string>{"GPU-1", "GPU-3"}));
  demand.gpus = 3;
  EXPECT_EQ(never_fits(demand, m.capacity),
            "asks for 3 GPUs *A100*, but can use 2 of this machine's 4: NVIDIA H100, NVIDIA A100, "
            "NVIDIA H100, NVIDIA A100");
}

TEST(WideJobs, TakeAGpuTheyFailedOnOnlyWhenTheyMust) {
  Machine m(3);
  m.queue.declare(kWide, on_gpus("wide", 2));
  m.add(kWide);
  const Avoided avoided = [](JobId) { return std::vector<std::string>{"GPU-0", "GPU-1"}; };
  EXPECT_EQ(choose(m.queue, m.capacity, avoided)->gpus,
            (std::vector<std::string>{"GPU-2", "GPU-0"}));
}

// Narrow jobs without end, which take as long as they like, whatever was expected of them.
TEST(WideJobsProperty, NoneWaitsForEver) {
  EXPECT_TRUE(rc::check([] {
    const int gpus = *rc::gen::inRange(2, 9);
    Machine m(gpus);
    const int wides = *rc::gen::inRange(1, 4);
    std::map<StepKey, int> left;
    for (int i = 0; i < wides; ++i) {
      const StepKey key{.sweep = {1 + i}};
      m.queue.declare(key, on_gpus("wide", *rc::gen::inRange(2, gpus + 1)));
      left[key] = *rc::gen::inRange(1, 4);
      for (int n = 0; n < left[key]; ++n) m.add(key, *rc::gen::inRange(0, 30));
    }
    const StepKey narrow{.sweep = {100}};
    m.queue.declare(narrow, on_gpus("narrow", 1));
    struct Live {
      Choice choice;
      std::int64_t end_ns;
    };
    std::vector<Live> live;
    int small_in_a_row = 0;
    while (std::any_of(left.begin(), left.end(), [](const auto& e) { return e.second > 0; })) {
      while (m.queue.size(narrow) < static_cast<std::size_t>(2 * gpus)) {
        m.add(narrow, *rc::gen::inRange(0, 20));
      }
      while (const std::optional<Choice> choice = m.start()) {
        const bool is_small = choice->job.step == narrow;
        small_in_a_row = is_small ? small_in_a_row + 1 : 0;
        if (!is_small) --left[choice->job.step];
        live.push_back({*choice, m.capacity.now_ns + *rc::gen::inRange(1, 40)});
      }
      // What was chosen before the first wide job waited, and what it let pass and was lent.
      RC_ASSERT(small_in_a_row <= gpus + 2 * kMaxOvertaken);
      const auto next =
          std::min_element(live.begin(), live.end(),
                           [](const Live& a, const Live& b) { return a.end_ns < b.end_ns; });
      m.capacity.now_ns = next->end_ns;
      m.end(next->choice);
      live.erase(next);
    }
  }));
}

}  // namespace
}  // namespace pergpu
