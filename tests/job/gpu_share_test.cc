// Jobs that share GPUs: who goes where, and that nobody has more than there is or waits for ever.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <set>

#include "gpu_machine.h"
#include "job/schedule/gpu_limit.h"

namespace pergpu {
namespace {

constexpr std::uint64_t kGiB = 1ull << 30;
const StepKey kWhole{.sweep = {1}};  // older: first in the order
const StepKey kPart{.sweep = {2}};

Demand part_of_gpu(int share, std::uint64_t memory_gib = 0) {
  Demand demand = on_gpus("part", 1);
  demand.share = share;
  if (memory_gib > 0) demand.gpu_memory_bytes = memory_gib * kGiB;
  return demand;
}

Machine of_80_gib(int gpus) {
  Machine m(gpus);
  for (GpuLane& gpu : m.capacity.gpus) gpu.memory_bytes = 80 * kGiB;
  return m;
}

TEST(GpuParts, AreCountedAsTheyAreGivenAndTakenBack) {
  GpuParts parts;
  EXPECT_FALSE(parts.any());
  EXPECT_EQ(parts.first_free(), 0);
  parts.give(0, {.share = 250, .bytes = 20, .until_ns = 7});
  parts.give(1, {.share = 500, .bytes = 30, .until_ns = 5});
  EXPECT_EQ(parts.taken(), 750);
  EXPECT_EQ(parts.promised(), 50u);
  EXPECT_EQ(parts.first_free(), 2);
  EXPECT_EQ(parts.free_at_ns(), 7);
  parts.give(1, {.share = 100, .bytes = 10});
  EXPECT_EQ(parts.taken(), 350) << "in the place of what it was";
  EXPECT_EQ(parts.free_at_ns(), 0) << "of one nobody knows";
  parts.take_back(0);
  parts.take_back(0);
  parts.take_back(9);
  EXPECT_EQ(parts.count(), 1);
  EXPECT_EQ(parts.first_free(), 0);
  EXPECT_EQ(parts.promised(), 10u);
}

TEST(GpuShare, IsWrittenAsItIsTyped) {
  EXPECT_EQ(share_text(250), "0.25");
  EXPECT_EQ(share_text(333), "0.333");
  EXPECT_EQ(share_text(1000), "1");
}

TEST(GpuShare, JobsSpreadOverFreeGpusAndThenShareThem) {
  Machine m(2);
  m.queue.declare(kPart, part_of_gpu(500));
  for (int i = 0; i < 5; ++i) m.add(kPart);
  std::vector<std::string> lanes;
  while (const auto choice = m.start()) lanes.push_back(to_string(choice->lane));
  EXPECT_EQ(lanes, (std::vector<std::string>{"gpu0", "gpu1", "gpu0.1", "gpu1.1"}));
  EXPECT_EQ(why_not(m.queue, kPart, m.capacity),
            "asks for 0.5 of a GPU, all 2 GPUs are in use; 1 of gpu0 is taken by 2 jobs");
}

TEST(GpuShare, JobsGoWhereTheLeastIsLeftWhileOthersWaitForWholeGpus) {
  Machine m(3);
  m.queue.declare(kPart, part_of_gpu(400));
  Demand all = on_gpus("all", 3);
  m.queue.declare(kWhole, all);
  m.add(kPart);
  const Choice first = *m.start();
  m.add(kWhole);
  m.add(kPart);
  EXPECT_EQ(to_string(m.start()->lane), "gpu0.1");
  m.add(kPart);
  EXPECT_EQ(to_string(m.start()->lane), "gpu1");
  m.end(first);
  m.add(kPart);
  EXPECT_EQ(to_string(m.start()->lane), "gpu0") << "its number is free again";
}

TEST(GpuShare, AWholeGpuIsNotSharedAndASharedOneIsNotWhole) {
  Machine m(1);
  m.queue.declare(kPart, part_of_gpu(100));
  m.queue.declare(kWhole, on_gpus("whole", 1));
  m.add(kPart);
  const Choice part = *m.start();
  m.add(kWhole);
  EXPECT_FALSE(m.start());
  EXPECT_EQ(why_not(m.queue, kWhole, m.capacity), "the only GPU is in use");
  m.end(part);
  const Choice whole = *m.start();
  EXPECT_EQ(whole.job.step, kWhole);
  m.add(kPart);
  EXPECT_FALSE(m.start());
}

TEST(GpuShare, MemoryThatIsPromisedIsNotPromisedTwice) {
  Machine m = of_80_gib(1);
  m.queue.declare(kPart, part_of_gpu(100, 24));
  for (int i = 0; i < 4; ++i) m.add(kPart);
  int started = 0;
  while (m.start()) ++started;
  EXPECT_EQ(started, 3) << "each may use 25.5 GiB before it is ended";
  EXPECT_EQ(m.capacity.gpus[0].parts.promised(), 3 * ended_above(24 * kGiB));
  EXPECT_EQ(why_not(m.queue, kPart, m.capacity),
            "asks for 0.1 of a GPU, the only GPU is in use; 0.3 of gpu0 is taken by 3 jobs, with "
            "76.5 GiB of its memory");
}

TEST(GpuShare, ThatNoGpuCanHaveIsNamedAsAShare) {
  const Machine m = of_80_gib(1);
  const std::string said = never_fits(part_of_gpu(500, 100), m.capacity);
  EXPECT_TRUE(said.starts_with("asks for 0.5 of a GPU with 100 GiB of memory, but can use 0 of "))
      << said;
}

TEST(GpuShare, WithoutALimitOfItsOwnMemoryIsSharedAlike) {
  EXPECT_EQ(promised_to(part_of_gpu(250), 80 * kGiB), 20 * kGiB);
  EXPECT_EQ(promised_to(part_of_gpu(250, 4), 80 * kGiB), ended_above(4 * kGiB));
  EXPECT_EQ(promised_to(part_of_gpu(250), 0), 0u) << "how much there is is not known";
}

TEST(GpuShare, GrowsWithEachAttemptThatHadTooLittleMemory) {
  Demand demand = part_of_gpu(300);
  EXPECT_EQ(grown(demand, {.gpu_memory = 1}).share, 600);
  EXPECT_EQ(grown(demand, {.gpu_memory = 2}).share, kWholeGpu);
  EXPECT_EQ(grown(on_gpus("whole", 1), {.gpu_memory = 2}).share, 0);
}

TEST(GpuShare, AnOutsiderKeepsThemOffAsAnyJob) {
  Machine m(1);
  m.queue.declare(kPart, part_of_gpu(300));
  m.add(kPart);
  ASSERT_TRUE(m.start());
  m.capacity.gpus[0].outsiders = "used by alice (python3, pid 4711)";
  m.add(kPart);
  EXPECT_FALSE(m.start());
}

TEST(GpuShare, AJobThatWasOvertakenTooOftenGetsAGpuThatNobodyJoinsAnyMore) {
  Machine m(1);
  m.queue.declare(kPart, part_of_gpu(400));
  m.queue.declare(kWhole, on_gpus("whole", 1));
  m.add(kPart);
  Choice lasting = *m.start();
  const JobId whole = m.add(kWhole);
  for (int i = 0; i < kMaxOvertaken; ++i) {
    m.add(kPart);
    const std::optional<Choice> small = m.start();
    ASSERT_TRUE(small) << i;
    m.end(*small);
  }
  m.add(kPart);
  EXPECT_FALSE(m.start()) << "nobody knows when the other one is over";
  EXPECT_EQ(
      why_not(m.queue, kPart, m.capacity),
      "asks for 0.4 of a GPU, 0 of 1 GPUs in use; free resources are reserved for step whole, "
      "which other jobs have bypassed too often");
  m.end(lasting);
  EXPECT_EQ(m.start()->job.id, whole);
}

/// Parts, whole GPUs and several of them, as they come.
struct Crowd {
  Machine m;
  std::vector<StepKey> steps;
  struct Live {
    Choice choice;
    std::int64_t end_ns;
  };
  std::vector<Live> live;

  explicit Crowd(int gpus) : m(of_80_gib(gpus)) {}

  StepKey declare(const Demand& demand) {
    const StepKey key{.sweep = {static_cast<std::int64_t>(steps.size()) + 1}};
    m.queue.declare(key, demand);
    steps.push_back(key);
    return key;
  }
  const Demand& demand(const Choice& choice) const { return *m.queue.demand(choice.job.step); }
  void end_next() {
    const auto next = std::min_element(
        live.begin(), live.end(), [](const Live& a, const Live& b) { return a.end_ns < b.end_ns; });
    m.capacity.now_ns = next->end_ns;
    m.end(next->choice);
    live.erase(next);
  }
  void check() const {
    for (const GpuLane& gpu : m.capacity.gpus) {
      int share = 0;
      int whole = 0;
      std::uint64_t bytes = 0;
      std::set<std::int32_t> parts;
      for (const Live& one : live) {
        const std::vector<std::string>& its = one.choice.gpus;
        if (std::find(its.begin(), its.end(), gpu.uuid) == its.end()) continue;
        const Demand& asked = demand(one.choice);
        if (asked.share == 0) {
          ++whole;
          continue;
        }
        share += asked.share;
        bytes += promised_to(asked, gpu.memory_bytes);
        RC_ASSERT(parts.insert(one.choice.lane.part).second);
      }
      RC_ASSERT(whole <= 1);
      RC_ASSERT(whole == 0 || share == 0);
      RC_ASSERT(share <= kWholeGpu);
      RC_ASSERT(bytes <= gpu.memory_bytes || parts.size() == 1);
      RC_ASSERT(gpu.parts.taken() == share);
    }
  }
};

Demand any_part() {
  const int share = *rc::gen::inRange(100, kWholeGpu);
  return part_of_gpu(share, static_cast<std::uint64_t>(*rc::gen::inRange(0, 60)));
}

TEST(GpuShareProperty, NobodyHasMoreThanThereIs) {
  EXPECT_TRUE(rc::check([] {
    Crowd crowd(*rc::gen::inRange(1, 5));
    for (int i = 0; i < 4; ++i) crowd.declare(any_part());
    crowd.declare(on_gpus("whole", 1));
    for (int turn = 0; turn < 60; ++turn) {
      const auto step = static_cast<std::size_t>(*rc::gen::inRange(0, 5));
      crowd.m.add(crowd.steps[step], *rc::gen::inRange(0, 20));
      while (const std::optional<Choice> choice = crowd.m.start()) {
        crowd.live.push_back({*choice, crowd.m.capacity.now_ns + *rc::gen::inRange(1, 40)});
        crowd.check();
      }
      if (!crowd.live.empty() && *rc::gen::inRange(0, 2) == 0) crowd.end_next();
      crowd.check();
    }
    while (!crowd.live.empty()) crowd.end_next();
    crowd.check();
  }));
}

// Small shares without end, beside one job that wants more than they leave.
TEST(GpuShareProperty, NobodyWaitsForEver) {
  EXPECT_TRUE(rc::check([] {
    const int gpus = *rc::gen::inRange(1, 5);
    Crowd crowd(gpus);
    const bool is_whole = *rc::gen::arbitrary<bool>();
    const StepKey large = crowd.declare(is_whole ? on_gpus("whole", *rc::gen::inRange(1, gpus + 1))
                                                 : part_of_gpu(*rc::gen::inRange(500, kWholeGpu)));
    const StepKey small = crowd.declare(part_of_gpu(*rc::gen::inRange(100, 400)));
    crowd.m.add(small, 5);
    // None takes longer than 40: so long each that goes ahead of it may delay it, and those before.
    const std::int64_t patience = 40 * (2 * kMaxOvertaken + gpus + 2);
    std::int64_t since = crowd.m.capacity.now_ns;
    for (int left = 3; left > 0;) {
      if (crowd.m.queue.size(large) == 0) {
        crowd.m.add(large, *rc::gen::inRange(0, 30));
        since = crowd.m.capacity.now_ns;
      }
      while (crowd.m.queue.size(small) < static_cast<std::size_t>(10 * gpus)) {
        crowd.m.add(small, *rc::gen::inRange(0, 20));
      }
      while (const std::optional<Choice> choice = crowd.m.start()) {
        if (choice->job.step == large) --left;
        crowd.live.push_back({*choice, crowd.m.capacity.now_ns + *rc::gen::inRange(1, 40)});
      }
      RC_ASSERT(crowd.m.queue.size(large) == 0 || crowd.m.capacity.now_ns - since <= patience);
      crowd.check();
      crowd.end_next();
    }
  }));
}

}  // namespace
}  // namespace pergpu
