// Which GPUs a job with several gets.
#include "job/schedule/gpu_set.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "gpu_machine.h"

namespace pergpu {
namespace {

const StepKey kPair{.sweep = {1}};
const StepKey kOne{.sweep = {2}};
using Uuids = std::vector<std::string>;

/// Pairs that are joined by NVLink; all others are across the machine.
void join(Machine& m, const std::vector<std::pair<int, int>>& links) {
  for (GpuLane& gpu : m.capacity.gpus) {
    gpu.distances.assign(m.capacity.gpus.size(), 50);
    gpu.distances[static_cast<std::size_t>(gpu.id.slot)] = 0;
  }
  for (const auto& [a, b] : links) {
    m.capacity.gpus[static_cast<std::size_t>(a)].distances[static_cast<std::size_t>(b)] = 1;
    m.capacity.gpus[static_cast<std::size_t>(b)].distances[static_cast<std::size_t>(a)] = 1;
  }
}

struct GpuSetTest : ::testing::Test {
  GpuSetTest() : m(4) {
    m.queue.declare(kPair, on_gpus("pair", 2));
    m.queue.declare(kOne, on_gpus("one", 1));
    join(m, {{0, 2}, {1, 3}});
  }
  Uuids start(StepKey step) {
    m.add(step);
    const std::optional<Choice> choice = m.start();
    return choice ? choice->gpus : Uuids();
  }
  Machine m;
};

TEST_F(GpuSetTest, AJobWithTwoGetsTwoThatAreLinked) {
  EXPECT_EQ(start(kPair), (Uuids{"GPU-0", "GPU-2"}));
  EXPECT_EQ(start(kPair), (Uuids{"GPU-1", "GPU-3"}));
}

TEST_F(GpuSetTest, AJobWithOneLeavesAPairThatIsWhole) {
  EXPECT_EQ(start(kOne), Uuids{"GPU-0"});
  EXPECT_EQ(start(kOne), Uuids{"GPU-2"}) << "its other one is taken already";
  EXPECT_EQ(start(kPair), (Uuids{"GPU-1", "GPU-3"}));
}

TEST_F(GpuSetTest, WhereNothingIsKnownTheFirstOnesAreTaken) {
  for (GpuLane& gpu : m.capacity.gpus) gpu.distances.clear();
  EXPECT_EQ(start(kPair), (Uuids{"GPU-0", "GPU-1"}));
}

TEST_F(GpuSetTest, AnOutsiderWeighsMoreThanALink) {
  m.capacity.gpus[2].outsiders = "used by alice";
  Demand demand = on_gpus("pair", 2);
  demand.outsiders = Outsiders::Ignore;
  m.queue.declare(kPair, demand);
  EXPECT_EQ(start(kPair), (Uuids{"GPU-1", "GPU-3"}));
  EXPECT_EQ(start(kPair), (Uuids{"GPU-0", "GPU-2"}));
}

TEST_F(GpuSetTest, OneThatHasToBeInItIsKept) {
  m.capacity.gpus[2].outsiders = m.capacity.gpus[3].outsiders = "used by alice";
  m.capacity.gpus[1].busy = "is being checked";
  Demand demand = on_gpus("pair", 2);
  demand.outsiders = Outsiders::Ignore;
  m.queue.declare(kPair, demand);
  EXPECT_EQ(start(kPair), (Uuids{"GPU-0", "GPU-2"})) << "0 is nobody's, and 2 is linked with it";
}

long spread(const std::vector<const GpuLane*>& gpus) {
  long sum = 0;
  for (const GpuLane* a : gpus) {
    for (const GpuLane* b : gpus) sum += distance_between(*a, *b);
  }
  return sum;
}

RC_GTEST_PROP(GpuSetProperty, NoOtherSetOfFewGpusIsNearer, ()) {
  const int count = *rc::gen::inRange(1, 9);
  Machine m(count);
  for (GpuLane& a : m.capacity.gpus) a.distances.assign(m.capacity.gpus.size(), 0);
  for (std::size_t a = 0; a < m.capacity.gpus.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const int distance = *rc::gen::element(1, 5, 10, 20, 30, 40, 50);
      m.capacity.gpus[a].distances[b] = m.capacity.gpus[b].distances[a] = distance;
    }
  }
  std::vector<const GpuLane*> all;
  for (const GpuLane& gpu : m.capacity.gpus) all.push_back(&gpu);
  const auto asked = static_cast<std::size_t>(*rc::gen::inRange(1, count + 1));
  const std::vector<const GpuLane*> found = nearest({}, all, asked);
  RC_ASSERT(found.size() == asked);
  for (unsigned set = 0; set < 1u << count; ++set) {
    std::vector<const GpuLane*> other;
    for (int i = 0; i < count; ++i) {
      if ((set >> i & 1u) != 0) other.push_back(all[static_cast<std::size_t>(i)]);
    }
    if (other.size() == asked) RC_ASSERT(spread(found) <= spread(other));
  }
}

TEST(GpuSetLarge, OfManyAWholeGroupIsFound) {
  Machine m(32);
  for (GpuLane& a : m.capacity.gpus) {
    for (const GpuLane& b : m.capacity.gpus) {
      const bool same = a.id.slot % 4 == b.id.slot % 4;
      a.distances.push_back(same ? 1 : 50);
    }
  }
  std::vector<const GpuLane*> all;
  for (const GpuLane& gpu : m.capacity.gpus) all.push_back(&gpu);
  const std::vector<const GpuLane*> found = nearest({}, all, 8);
  ASSERT_EQ(found.size(), 8u);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i]->id.slot, 4 * static_cast<int>(i));
  }
}

TEST(GpuSetLarge, AsManyGpusAsAClusterHasAreNotComparedWithEachOther) {
  Machine m(6'212);  // of the trace that bench/replay knows; a minute each if pairs were compared
  m.queue.declare(kPair, on_gpus("pair", 2));
  for (int i = 0; i < 100; ++i) m.add(kPair);
  for (int i = 0; i < 100; ++i) {
    const std::optional<Choice> choice = m.start();
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->gpus.front(), "GPU-" + std::to_string(2 * i));
  }
}

}  // namespace
}  // namespace pergpu
