// Who starts, where, and what is said of those who do not.
#include "job/schedule/schedule.h"

#include <gtest/gtest.h>

namespace pergpu {
namespace {

constexpr std::uint64_t kGib = std::uint64_t{1} << 30;

StepKey key(std::int64_t sweep, std::int16_t step = 0) { return {.sweep = {sweep}, .step = step}; }

Demand gpu_demand() { return Demand{.step_name = "train", .pool = LaneId::Pool::Gpu, .gpus = 1}; }

struct Machine {
  ReadyQueue queue;
  Capacity capacity;
  std::int64_t next_id = 1;

  explicit Machine(int cpu_lanes, int gpus = 0) {
    capacity.cpu_lanes.size = cpu_lanes;
    capacity.cpus = 16;
    capacity.memory_bytes = 64 * kGib;
    for (int i = 0; i < gpus; ++i) {
      capacity.gpus.push_back({.id = {.pool = LaneId::Pool::Gpu, .slot = i},
                               .uuid = "GPU-" + std::to_string(i),
                               .name = "NVIDIA H100"});
    }
  }
  void add(StepKey step, int jobs) {
    for (int i = 0; i < jobs; ++i, ++next_id) {
      queue.insert({.id = {next_id}, .step = step, .run = static_cast<std::int32_t>(next_id)});
    }
  }
  std::optional<Choice> start() {
    std::optional<Choice> choice = choose(queue, capacity);
    if (!choice) return choice;
    queue.take(choice->job, choice->overtaken);
    capacity.occupy(choice->job.step, *queue.demand(choice->job.step), choice->lane, choice->gpus,
                    "runs job");
    return choice;
  }
  void end(const Choice& choice) {
    capacity.vacate(choice.job.step, *queue.demand(choice.job.step), choice.lane, choice.gpus,
                    true);
  }
  int start_all() {
    int started = 0;
    while (start()) ++started;
    return started;
  }
};

TEST(Choose, FillsTheLowestFreeLane) {
  Machine m(2);
  m.queue.declare(key(1), {.step_name = "train"});
  m.add(key(1), 3);
  const std::optional<Choice> first = m.start();
  const std::optional<Choice> second = m.start();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(to_string(first->lane), "cpu0");
  EXPECT_EQ(to_string(second->lane), "cpu1");
  EXPECT_FALSE(m.start());
  m.end(*first);
  const std::optional<Choice> third = m.start();
  ASSERT_TRUE(third);
  EXPECT_EQ(to_string(third->lane), "cpu0");
}

TEST(Choose, NothingReadyNothingChosen) {
  Machine m(2);
  m.queue.declare(key(1), {});
  EXPECT_FALSE(m.start());
}

TEST(Choose, ShrunkPoolWaitsUntilLanesAreFreeAgain) {
  Machine m(4);
  m.queue.declare(key(1), {});
  m.add(key(1), 6);
  EXPECT_EQ(m.start_all(), 4);
  m.capacity.cpu_lanes.size = 2;
  m.capacity.vacate(key(1), {}, {.slot = 0}, {}, true);
  m.capacity.vacate(key(1), {}, {.slot = 1}, {}, true);
  EXPECT_FALSE(m.start());
  m.capacity.vacate(key(1), {}, {.slot = 3}, {}, true);
  EXPECT_TRUE(m.start());
}

TEST(Choose, SweepsOwnLanesAreItsOwn) {
  Machine m(1);
  m.capacity.sweep_lanes[{1}].size = 2;
  m.queue.declare(key(1), {.pool = LaneId::Pool::Sweep});
  m.queue.declare(key(2), {.pool = LaneId::Pool::Sweep});
  m.add(key(1), 3);
  m.add(key(2), 3);
  const std::optional<Choice> choice = m.start();
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->lane, (LaneId{.pool = LaneId::Pool::Sweep, .sweep = {1}, .slot = 0}));
  EXPECT_EQ(m.start_all(), 1);
}

TEST(Choose, GpuJobsGetOneFreeGpuEach) {
  Machine m(1, 2);
  m.queue.declare(key(1), gpu_demand());
  m.add(key(1), 3);
  const std::optional<Choice> first = m.start();
  const std::optional<Choice> second = m.start();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->gpus, std::vector<std::string>{"GPU-0"});
  EXPECT_EQ(second->gpus, std::vector<std::string>{"GPU-1"});
  EXPECT_EQ(to_string(second->lane), "gpu1");
  EXPECT_FALSE(m.start());
}

TEST(Choose, GpuOfTheRightModelAmongTheAllowedOnes) {
  Machine m(1, 4);
  m.capacity.gpus[2].name = m.capacity.gpus[3].name = "NVIDIA A100";
  Demand demand = gpu_demand();
  demand.gpu_pattern = "*a100*";
  demand.devices = {"GPU-0", "GPU-3"};
  m.queue.declare(key(1), demand);
  m.add(key(1), 2);
  const std::optional<Choice> choice = m.start();
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->gpus, std::vector<std::string>{"GPU-3"});
  EXPECT_FALSE(m.start());
}

TEST(Choose, OutsidersAreAvoidedUnlessIgnored) {
  Machine m(1, 1);
  m.capacity.gpus[0].outsiders = "alice's python, 3 GiB";
  m.queue.declare(key(1), gpu_demand());
  m.add(key(1), 1);
  EXPECT_FALSE(m.start());
  EXPECT_NE(why_not(m.queue, key(1), m.capacity).find("alice's python"), std::string::npos);
  Demand demand = gpu_demand();
  demand.outsiders = Outsiders::Ignore;
  m.queue.declare(key(1), demand);
  EXPECT_TRUE(m.start());
}

TEST(Choose, BesideOutsidersWhereThereIsRoomButRatherAlone) {
  Machine m(0, 2);
  Demand demand = gpu_demand();
  demand.outsiders = Outsiders::Fit;
  demand.gpu_memory_bytes = 16 * kGib;
  m.queue.declare(key(1), demand);
  m.add(key(1), 3);
  m.capacity.gpus[0].outsiders = "used by alice";
  m.capacity.gpus[0].free_bytes = 17 * kGib;
  EXPECT_EQ(m.start()->gpus, std::vector<std::string>{"GPU-1"});
  EXPECT_EQ(m.start()->gpus, std::vector<std::string>{"GPU-0"})
      << "a limit of 16 may be passed by 1";
  m.capacity.gpus[0].busy.clear();
  m.capacity.gpus[0].free_bytes -= 1;
  EXPECT_FALSE(m.start());
  EXPECT_EQ(why_not(m.queue, key(1), m.capacity),
            "1 of 2 GPUs in use, 1 used by other processes (gpu0: used by alice; 17 GiB of memory "
            "free, 17 "
            "GiB needed)");
}

TEST(Choose, TheGpuThatAJobFailedOnIsItsLastChoice) {
  Machine m(0, 3);
  m.queue.declare(key(1), gpu_demand());
  m.add(key(1), 3);
  const Avoided avoided = [](JobId) { return std::vector<std::string>{"GPU-0"}; };
  EXPECT_EQ(choose(m.queue, m.capacity, avoided)->gpus, std::vector<std::string>{"GPU-1"});
  m.capacity.gpus[1].busy = "runs job 7";
  const std::optional<Choice> choice = choose(m.queue, m.capacity, avoided);
  EXPECT_EQ(choice->gpus, std::vector<std::string>{"GPU-2"});
  EXPECT_EQ(choice->lane.slot, 2);
  m.capacity.gpus[2].outsiders = "used by alice";
  EXPECT_EQ(choose(m.queue, m.capacity, avoided)->gpus, std::vector<std::string>{"GPU-0"});
}

TEST(Choose, GpuThatIsNotCleanYetIsNotGiven) {
  Machine m(1, 1);
  m.queue.declare(key(1), gpu_demand());
  m.add(key(1), 2);
  const std::optional<Choice> choice = m.start();
  ASSERT_TRUE(choice);
  m.capacity.vacate(key(1), gpu_demand(), choice->lane, choice->gpus, true, /*free_gpus=*/false);
  EXPECT_FALSE(m.start());
  m.capacity.gpus[0].busy.clear();
  EXPECT_TRUE(m.start());
}

TEST(Choose, BlockedClassDoesNotBlockTheNext) {
  Machine m(4);
  m.queue.declare(key(1), {.step_name = "evaluate", .max_parallel = 1});
  m.queue.declare(key(2), {.step_name = "train"});
  m.add(key(1), 3);
  m.add(key(2), 3);
  EXPECT_EQ(m.start()->job.step, key(1));
  EXPECT_EQ(m.start()->job.step, key(2));
  EXPECT_EQ(why_not(m.queue, key(1), m.capacity), "max_parallel = 1 of step evaluate is reached");
}

TEST(Choose, LimitsCountAcrossSweeps) {
  Machine m(8);
  m.capacity.limits["db"].value = 2;
  m.queue.declare(key(1), {.uses = {"db"}});
  m.queue.declare(key(2), {.uses = {"db"}});
  m.add(key(1), 1);
  m.add(key(2), 5);
  EXPECT_EQ(m.start_all(), 2);
  EXPECT_EQ(why_not(m.queue, key(2), m.capacity), "limit db = 2 is reached by 2 live jobs");
}

TEST(Choose, NameWithoutALimitLimitsNothing) {
  Machine m(8);
  m.queue.declare(key(1), {.uses = {"db"}});
  m.add(key(1), 5);
  EXPECT_EQ(m.start_all(), 5);
}

TEST(Choose, MaxStartingEndsWithStartUp) {
  Machine m(8);
  m.queue.declare(key(1), {.step_name = "train", .max_starting = 2});
  m.add(key(1), 5);
  EXPECT_EQ(m.start_all(), 2);
  EXPECT_EQ(why_not(m.queue, key(1), m.capacity),
            "max_starting = 2 of step train is reached: other jobs are still starting up");
  m.capacity.started_up(key(1));
  EXPECT_EQ(m.start_all(), 1);
}

TEST(Choose, ReservationsStayWithinTheMachine) {
  Machine m(8);
  m.queue.declare(key(1), {.cpus = 6});
  m.queue.declare(key(2), {.memory_bytes = 40 * kGib});
  m.add(key(1), 5);
  m.add(key(2), 5);
  EXPECT_EQ(m.start_all(), 3);
  EXPECT_EQ(why_not(m.queue, key(1), m.capacity), "asks for 6 CPUs, but 12 of 16 are reserved");
  EXPECT_EQ(why_not(m.queue, key(2), m.capacity),
            "asks for 40 GiB of memory, but 40 GiB of 64 GiB are reserved");
}

TEST(Choose, OvercommitLiftsReservations) {
  Machine m(8);
  m.queue.declare(key(1), {.cpus = 99, .overcommit = true});
  m.add(key(1), 3);
  EXPECT_EQ(m.start_all(), 3);
  EXPECT_EQ(m.capacity.reserved_cpus, 0);
}

TEST(Choose, UndeclaredNeverBlocks) {
  Machine m(32);
  m.queue.declare(key(1), {});
  m.add(key(1), 32);
  EXPECT_EQ(m.start_all(), 32);
}

TEST(Choose, SmallJobsOvertakeABigOneOnlySoOften) {
  Machine m(4);
  m.queue.declare(key(1), {.step_name = "big", .cpus = 16});
  m.queue.declare(key(2), {.step_name = "small", .cpus = 4});
  m.add(key(2), 100);
  std::vector<Choice> live;
  while (std::optional<Choice> choice = m.start()) live.push_back(*choice);
  ASSERT_EQ(live.size(), 4u);
  m.add(key(1), 1);
  // One small job ends at a time: there is never room for the big one unless it is kept.
  int overtaken = 0;
  while (!live.empty() && live.back().job.step != key(1)) {
    m.end(live.front());
    live.erase(live.begin());
    while (std::optional<Choice> choice = m.start()) {
      if (choice->job.step == key(2)) ++overtaken;
      live.push_back(*choice);
    }
    ASSERT_LE(overtaken, kMaxOvertaken);
  }
  ASSERT_EQ(live.size(), 1u);
  EXPECT_EQ(live.back().job.step, key(1));
  EXPECT_EQ(overtaken, kMaxOvertaken);
}

TEST(Choose, RoomIsNotKeptFromJobsThatReserveNothing) {
  Machine m(4);
  m.queue.declare(key(1), {.step_name = "big", .cpus = 16});
  m.queue.declare(key(2), {.step_name = "small", .cpus = 4});
  m.queue.declare(key(3), {.step_name = "free"});
  m.add(key(2), kMaxOvertaken + 1);
  ASSERT_TRUE(m.start());
  m.add(key(1), 1);
  for (int i = 0; i < kMaxOvertaken; ++i) m.queue.take(m.queue.heads().rbegin()->job, {key(1)});
  m.add(key(2), 1);
  m.add(key(3), 5);
  const std::optional<Choice> choice = m.start();
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->job.step, key(3));
  EXPECT_TRUE(choice->overtaken.empty());
  EXPECT_EQ(
      why_not(m.queue, key(2), m.capacity),
      "asks for 4 CPUs, but 4 of 16 are reserved; free resources are reserved for step big, which "
      "other jobs have bypassed too often");
  // The big job's lane is kept too: two of four lanes are left.
  EXPECT_EQ(m.start_all(), 1);
}

TEST(Choose, WhatCanNeverFitKeepsNoRoom) {
  Machine m(4);
  m.queue.declare(key(1), {.step_name = "huge", .cpus = 64});
  m.queue.declare(key(2), {.step_name = "small", .cpus = 4});
  m.add(key(1), 1);
  m.add(key(2), 100);
  for (int i = 0; i < 3 * kMaxOvertaken; ++i) {
    const std::optional<Choice> choice = m.start();
    ASSERT_TRUE(choice);
    m.end(*choice);
  }
  EXPECT_EQ(why_not(m.queue, key(1), m.capacity), "asks for 64 CPUs, but this machine has 16");
}

TEST(WhyNot, SaysNothingOfAClassThatCouldStart) {
  Machine m(1);
  m.queue.declare(key(1), {});
  m.add(key(1), 1);
  EXPECT_EQ(why_not(m.queue, key(1), m.capacity), "");
}

TEST(WhyNot, CountsLanesAndGpus) {
  Machine m(2, 8);
  m.queue.declare(key(1), {});
  m.queue.declare(key(2), gpu_demand());
  m.add(key(1), 3);
  m.add(key(2), 9);
  m.start_all();
  EXPECT_EQ(why_not(m.queue, key(1), m.capacity), "waits for a free lane (2 of 2 in use)");
  EXPECT_EQ(why_not(m.queue, key(2), m.capacity), "all 8 GPUs are in use");
  m.capacity.gpus[3].busy = "used by alice (pergpu)";
  EXPECT_EQ(why_not(m.queue, key(2), m.capacity),
            "all 8 GPUs are in use (gpu3: used by alice (pergpu))");
}

TEST(NeverFits, NamesWhatTheMachineHas) {
  const Machine m(2, 1);
  EXPECT_EQ(never_fits({.cpus = 16}, m.capacity), "");
  EXPECT_EQ(never_fits({.cpus = 17}, m.capacity), "asks for 17 CPUs, but this machine has 16");
  EXPECT_EQ(never_fits({.memory_bytes = 65 * kGib}, m.capacity),
            "asks for 65 GiB of memory, but this machine has 64 GiB");
  EXPECT_EQ(never_fits({.memory_bytes = 65 * kGib, .overcommit = true}, m.capacity), "");
  Demand demand = gpu_demand();
  EXPECT_EQ(never_fits(demand, m.capacity), "");
  demand.gpu_pattern = "*B200*";
  EXPECT_EQ(never_fits(demand, m.capacity),
            "asks for 1 GPU *B200*, but can use 0 of this machine's 1: NVIDIA H100");
}

TEST(Capacity, VacateUndoesOccupy) {
  Machine m(2, 2);
  const Demand demand{
      .pool = LaneId::Pool::Gpu, .gpus = 1, .cpus = 4, .memory_bytes = kGib, .uses = {"db"}};
  m.capacity.limits["db"].value = 3;
  const LaneId lane{.pool = LaneId::Pool::Gpu, .slot = 1};
  m.capacity.occupy(key(1), demand, lane, {"GPU-1"}, "runs job 5");
  EXPECT_EQ(m.capacity.gpus[1].busy, "runs job 5");
  EXPECT_EQ(m.capacity.reserved_cpus, 4);
  EXPECT_EQ(m.capacity.limits["db"].live, 1);
  m.capacity.started_up(key(1));
  m.capacity.vacate(key(1), demand, lane, {"GPU-1"}, /*was_starting=*/false);
  EXPECT_EQ(m.capacity.gpus[1].busy, "");
  EXPECT_EQ(m.capacity.reserved_cpus, 0);
  EXPECT_EQ(m.capacity.reserved_memory, 0u);
  EXPECT_EQ(m.capacity.limits["db"].live, 0);
  EXPECT_TRUE(m.capacity.live.empty());
}

}  // namespace
}  // namespace pergpu
