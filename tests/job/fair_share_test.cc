// Sweeps with weights, played against choose() on CPU lanes and on GPUs.
#include "job/schedule/fair_share.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "job/schedule/schedule.h"
#include "job/schedule/starting_order.h"

namespace pergpu {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kMinute = 60 * kSecond;
constexpr std::int64_t kHour = 60 * kMinute;

StepKey step(std::int64_t sweep) { return {.sweep = {sweep}, .step = 0}; }

// Sweeps that always have a job ready, and what their jobs had.
class World {
 public:
  explicit World(int lanes) { capacity_.cpu_lanes.size = lanes; }
  static World of_gpus(int count) {
    World world(0);
    for (int i = 0; i < count; ++i) {
      world.capacity_.gpus.push_back(
          {.id = {.pool = LaneId::Pool::Gpu, .slot = i}, .uuid = "GPU-" + std::to_string(i)});
    }
    return world;
  }

  void submit(std::int64_t sweep, int weight, std::int64_t duration, int priority = 0) {
    submit(sweep, {.priority = priority, .weight = weight}, duration);
  }
  void submit(std::int64_t sweep, const Demand& demand, std::int64_t duration) {
    queue_.declare(step(sweep), demand);
    duration_[sweep] = duration;
    lasts_.erase(sweep);
    add(sweep);
  }
  void limit(int value) { capacity_.limits["licence"].value = value; }
  void cpus(int count) { capacity_.cpus = count; }
  void own_lanes(std::int64_t sweep, int lanes) { capacity_.sweep_lanes[{sweep}].size = lanes; }
  void last(std::int64_t sweep) { lasts_.insert(sweep); }  // no job of it follows
  void weigh(std::int64_t sweep, int weight) { queue_.declare(step(sweep), {.weight = weight}); }
  void withdraw(std::int64_t sweep) {
    duration_.erase(sweep);
    for (const ReadyJob& job : queue_.ready(step(sweep))) queue_.erase(job);
  }

  void run_until(std::int64_t end) {
    start();
    while (!live_.empty() && live_.begin()->first <= end) {
      advance(live_.begin()->first);
      while (!live_.empty() && live_.begin()->first == capacity_.now_ns) {
        const Live ended = live_.begin()->second;
        live_.erase(live_.begin());
        capacity_.vacate(ended.key, ended.demand, ended.lane, ended.gpus, true);
      }
      start();
    }
    advance(end);
  }

  std::int64_t had(std::int64_t sweep) { return had_[sweep]; }
  int has(std::int64_t sweep) {
    return static_cast<int>(std::count_if(live_.begin(), live_.end(), [&](const auto& one) {
      return one.second.key.sweep.value == sweep;
    }));
  }

 private:
  struct Live {
    StepKey key = {};
    Demand demand = {};
    LaneId lane = {};
    std::vector<std::string> gpus = {};
  };
  void add(std::int64_t sweep) {
    ++jobs_;
    queue_.insert({.id = {jobs_},
                   .step = step(sweep),
                   .run = static_cast<std::int32_t>(jobs_),
                   .expected_ns = duration_[sweep]});
  }
  void advance(std::int64_t now) {
    for (const auto& [end, one] : live_) {
      const int lanes = std::max(1, one.demand.gpus);
      had_[one.key.sweep.value] += lanes * (now - capacity_.now_ns);
    }
    capacity_.now_ns = now;
  }
  void start() {
    while (const auto choice = choose(queue_, capacity_)) {
      const std::int64_t sweep = choice->job.step.sweep.value;
      const Live one{choice->job.step, *queue_.demand(choice->job.key()), choice->lane,
                     choice->gpus};
      queue_.take(choice->job, choice->overtaken);
      const std::int64_t end = capacity_.now_ns + duration_[sweep];
      capacity_.occupy(one.key, one.demand, one.lane, one.gpus, "a job", end);
      live_.emplace(end, one);
      if (!lasts_.contains(sweep)) add(sweep);
    }
  }

  ReadyQueue queue_;
  Capacity capacity_;
  std::map<std::int64_t, std::int64_t> duration_;
  std::multimap<std::int64_t, Live> live_;  // by end
  std::map<std::int64_t, std::int64_t> had_;
  std::set<std::int64_t> lasts_;
  std::int64_t jobs_ = 0;
};

TEST(FairShare, TwoSweepsHaveHalfTheLanesEach) {
  World world(8);
  world.submit(1, 1, 10 * kMinute);
  world.submit(2, 1, 10 * kMinute);
  for (int hour = 1; hour <= 5; ++hour) {
    world.run_until(hour * kHour + kMinute);
    EXPECT_EQ(world.has(1), 4);
    EXPECT_EQ(world.has(2), 4);
  }
}

TEST(FairShare, OnOneLaneTheyTakeTurnsByTimeNotByJobs) {
  World world(1);
  world.submit(1, 3, kMinute);
  world.submit(2, 1, 5 * kMinute);
  world.run_until(100 * kHour);
  const double part = static_cast<double>(world.had(1)) / (100 * kHour);
  EXPECT_NEAR(part, 0.75, 0.005);
}

TEST(FairShare, WithoutAWeightTheOlderSweepHasAll) {
  World world(2);
  world.submit(1, 0, kMinute);
  world.submit(2, 0, kMinute);
  world.run_until(kHour);
  EXPECT_EQ(world.had(2), 0);
  world.weigh(2, 1);  // one of them alone does not make it so
  world.run_until(2 * kHour);
  EXPECT_EQ(world.had(2), 0);
  world.weigh(1, 1);
  world.run_until(3 * kHour);
  EXPECT_GT(world.had(2), kHour / 2);
}

TEST(FairShare, APriorityComesBeforeAllWeights) {
  World world(2);
  world.submit(1, 1000, kMinute);
  world.submit(2, 1, kMinute, 1);
  world.run_until(kHour);
  EXPECT_EQ(world.had(1), 0);
}

TEST(FairShare, WhatCannotBeDividedGoesByTime) {
  World world(2);
  world.submit(1, 1, kMinute);
  world.submit(2, 2, 5 * kMinute);
  world.run_until(100 * kHour);
  EXPECT_NEAR(static_cast<double>(world.had(1)) / (200 * kHour), 1.0 / 3, 0.005);
}

TEST(FairShare, ANewSweepGetsItsPartAsLanesBecomeFreeAndNoMore) {
  for (const std::int64_t duration : {10 * kMinute, 4 * kHour}) {
    World world(8);
    world.submit(1, 1, duration);
    world.run_until(10 * duration + kMinute);
    world.submit(2, 1, duration);
    for (int round = 11; round <= 20; ++round) {  // all lanes become free at one instant
      world.run_until(round * duration + kMinute);
      EXPECT_EQ(world.has(1), 4);
      EXPECT_EQ(world.has(2), 4);
    }
  }
}

/// Of what the two had from `begin` to `end`.
double part_of_first(World& world, std::int64_t begin, std::int64_t end) {
  world.run_until(begin);
  const std::int64_t first = world.had(1);
  const std::int64_t second = world.had(2);
  world.run_until(end);
  const auto more = static_cast<double>(world.had(1) - first);
  return more / (more + static_cast<double>(world.had(2) - second));
}

TEST(FairShare, ASweepThatWasAwayOwesNothingAndIsOwedNothing) {
  for (const int lanes : {1, 3}) {
    World world(lanes);
    world.submit(1, 1, kMinute);
    world.submit(2, 1, kMinute);
    world.run_until(kHour);
    world.withdraw(2);
    world.run_until(30 * kHour);
    world.submit(2, 1, kMinute);
    EXPECT_NEAR(part_of_first(world, 30 * kHour, 40 * kHour), 0.5, 0.01);
  }
}

TEST(FairShare, ASweepIsAwayFromItsLastJobOnThoughNobodyWaits) {
  World world(3);
  world.submit(1, 1, kHour);
  world.last(1);
  world.submit(2, 1, 98 * kHour);
  world.run_until(kMinute);
  world.withdraw(2);  // two jobs of it run on
  world.run_until(97 * kHour);
  world.submit(1, 1, kMinute);
  world.submit(2, 1, kMinute);
  EXPECT_NEAR(part_of_first(world, 100 * kHour, 200 * kHour), 0.5, 0.01);
}

TEST(FairShare, WhoWaitsAtALowerPriorityIsOwedNothingByThoseAbove) {
  World world(1);
  world.submit(3, 1, kMinute, -1);
  world.submit(1, 1, kMinute);
  world.run_until(100 * kHour);
  world.submit(2, 1, kMinute);
  EXPECT_NEAR(part_of_first(world, 100 * kHour, 150 * kHour), 0.5, 0.01);
  EXPECT_EQ(world.had(3), 0);
}

TEST(FairShare, WhoIsBarredIsOwedNothingAndHasNoPart) {
  World world(1);
  world.limit(0);
  world.submit(2, {.uses = {"licence"}, .weight = 1}, kMinute);
  world.submit(1, 1, kMinute);
  EXPECT_EQ(part_of_first(world, 0, 100 * kHour), 1);
  world.limit(1);
  EXPECT_NEAR(part_of_first(world, 100 * kHour, 150 * kHour), 0.5, 0.01);

  World many(8);
  many.limit(0);
  for (int i = 3; i < 11; ++i) many.submit(i, {.uses = {"licence"}, .weight = 1}, kMinute);
  many.submit(1, 1, kMinute);
  many.submit(2, 1, kMinute);
  for (int minute = 1; minute < 10; ++minute) {
    many.run_until(minute * kMinute + kSecond);
    EXPECT_EQ(many.has(1), 4);
    EXPECT_EQ(many.has(2), 4);
  }

  World one_at_a_time(8);
  one_at_a_time.submit(3, {.max_parallel = 1, .weight = 1}, 3 * kMinute);
  one_at_a_time.submit(1, 1, kMinute);
  one_at_a_time.run_until(100 * kHour);
  one_at_a_time.submit(2, 1, kMinute);
  EXPECT_NEAR(part_of_first(one_at_a_time, 100 * kHour, 110 * kHour), 0.5, 0.01);
}

TEST(FairShare, LanesOfASweepOfItsOwnAreNoPartOfTheOthers) {
  World world(8);
  world.own_lanes(3, 100);
  world.submit(3, {.pool = LaneId::Pool::Sweep, .weight = 1}, 20 * kMinute);
  world.submit(1, 1, kMinute);
  world.submit(2, 1, kMinute);
  for (int minute = 1; minute < 10; ++minute) {
    world.run_until(minute * kMinute + kSecond);
    EXPECT_EQ(world.has(1), 4);
    EXPECT_EQ(world.has(2), 4);
    EXPECT_EQ(world.has(3), 100);
  }
}

TEST(FairShare, OnLanesOfTheirOwnTheyShareCpus) {
  World world(8);
  world.cpus(2);
  for (const int sweep : {1, 2}) {
    world.own_lanes(sweep, 2);
    const Demand demand{.pool = LaneId::Pool::Sweep, .cpus = 2, .weight = sweep == 1 ? 3 : 1};
    world.submit(sweep, demand, sweep * kMinute);
  }
  EXPECT_NEAR(part_of_first(world, 0, 100 * kHour), 0.75, 0.01);
}

TEST(FairShare, WideJobsHaveTheirTurnsByTime) {
  struct Case {
    std::int64_t narrow = 0;
    int gpus = 0;
    std::int64_t wide = 0;
  };
  for (const Case& one :
       {Case{kMinute, 8, kHour}, Case{10 * kMinute, 8, kHour}, Case{kMinute, 3, kHour},
        Case{kHour, 8, kMinute}, Case{kMinute, 6, kHour}, Case{kMinute, 5, 2 * kHour}}) {
    World world = World::of_gpus(8);
    world.submit(1, {.pool = LaneId::Pool::Gpu, .gpus = 1, .weight = 1}, one.narrow);
    world.submit(2, {.pool = LaneId::Pool::Gpu, .gpus = one.gpus, .weight = 1}, one.wide);
    EXPECT_NEAR(part_of_first(world, 10 * kHour, 150 * kHour), 0.5, 0.03)
        << one.gpus << " GPUs, min " << one.wide / kMinute << " beside " << one.narrow / kMinute;
  }
}

TEST(FairShare, GpusAndCpuLanesAreCountedApart) {
  FairShare shares;
  const Demand gpus{.pool = LaneId::Pool::Gpu, .gpus = 2, .weight = 2};
  const Demand part{.pool = LaneId::Pool::Gpu, .gpus = 1, .share = 250, .weight = 1};
  const Demand cpu{.weight = 1};
  const FairShare::Party on_gpus({1}, gpus);
  const FairShare::Party on_cpus({1}, cpu);
  shares.take({1}, gpus, 0);
  shares.take({1}, part, 0);
  EXPECT_EQ(shares.lanes(on_gpus), 2250);
  EXPECT_EQ(shares.lanes(on_cpus), 0);
  shares.take({1}, cpu, 0);
  EXPECT_EQ(shares.lanes(on_cpus), 1000);
  EXPECT_DOUBLE_EQ(shares.level(on_gpus, 4 * kSecond), 4 * (2 / 2.0 + 0.25));
  shares.give_back({1}, gpus, 4 * kSecond);
  EXPECT_EQ(shares.lanes(on_gpus), 250);
  EXPECT_DOUBLE_EQ(shares.level(on_gpus, 8 * kSecond), 5 + 4 * 0.25);
  shares.take({1}, {.gpus = 1}, 8 * kSecond);  // without a weight
  EXPECT_EQ(shares.lanes(on_gpus), 250);
  const FairShare history = shares.history(8 * kSecond);
  EXPECT_EQ(history.lanes(on_gpus), 0);
  EXPECT_DOUBLE_EQ(history.level(on_gpus, 0), 6);
}

TEST(FairShare, WhoComesOrComesBackBeginsLevelWithTheLowestAtWork) {
  FairShare shares;
  const Demand one{.weight = 1};
  const FairShare::Party a({1}, one);
  const FairShare::Party b({2}, one);
  const FairShare::Party c({3}, one);
  const FairShare::Party d({4}, one);
  const FairShare::Waiting waits{.is_barred = false, .weight = 1};
  const FairShare::Waiting barred{.is_barred = true};
  shares.meet({{a, waits}, {b, waits}, {d, barred}}, 0);
  shares.take({1}, one, 0);
  shares.give_back({1}, one, 20 * kSecond);
  shares.take({2}, one, 20 * kSecond);
  shares.meet({{a, waits}, {b, waits}, {c, waits}, {d, barred}}, 30 * kSecond);
  EXPECT_DOUBLE_EQ(shares.level(a, 30 * kSecond), 20);
  EXPECT_DOUBLE_EQ(shares.level(b, 30 * kSecond), 10);
  EXPECT_DOUBLE_EQ(shares.level(c, 30 * kSecond), 10);
  EXPECT_DOUBLE_EQ(shares.level(d, 30 * kSecond), 10);
  shares.meet({{b, waits}, {c, waits}}, 30 * kSecond);  // a is away, and had more than the others
  shares.meet({{a, waits}, {b, waits}, {c, waits}}, 30 * kSecond);
  EXPECT_DOUBLE_EQ(shares.level(a, 30 * kSecond), 20);
  shares.meet({{b, waits}, {c, waits}}, 30 * kSecond);
  shares.give_back({2}, one, 40 * kSecond);
  shares.take({3}, one, 40 * kSecond);
  shares.meet({{c, waits}}, 90 * kSecond);  // a had no more than c, now
  shares.meet({{a, waits}, {b, waits}, {c, waits}}, 90 * kSecond);
  EXPECT_DOUBLE_EQ(shares.level(a, 90 * kSecond), 60);
  EXPECT_DOUBLE_EQ(shares.level(b, 90 * kSecond), 60);
  shares.give_back({3}, one, 90 * kSecond);
  shares.meet({}, 90 * kSecond);
  EXPECT_TRUE(shares.empty());
}

TEST(FairShare, WhoDoesNotCompeteForAWhileStaysAsFarBehindAsItWas) {
  FairShare shares;
  const Demand one{.weight = 1};
  const FairShare::Party a({1}, one);
  const FairShare::Party b({2}, one);
  const FairShare::Party c({3}, one);
  const FairShare::Waiting waits{.is_barred = false, .weight = 1};
  const FairShare::Waiting barred{.is_barred = true};
  shares.meet({{a, waits}, {b, waits}, {c, waits}}, 0);
  shares.take({1}, one, 0);
  shares.take({2}, one, 0);
  shares.give_back({2}, one, 30 * kSecond);
  shares.meet({{a, waits}, {b, waits}, {c, waits}}, 30 * kSecond);  // c had 30 less
  for (int second = 40; second <= 90; second += 10) {
    shares.meet({{a, waits}, {b, barred}, {c, barred}}, second * kSecond);
  }
  EXPECT_DOUBLE_EQ(shares.level(a, 90 * kSecond), 90);
  EXPECT_DOUBLE_EQ(shares.level(b, 90 * kSecond), 80) << "a went on by 10 until b was barred";
  EXPECT_DOUBLE_EQ(shares.level(c, 90 * kSecond), 50);
  shares.meet({{b, waits}, {c, waits}}, 90 * kSecond);  // a has nothing more to start
  shares.take({3}, one, 90 * kSecond);
  shares.meet({{b, waits}, {c, waits}}, 200 * kSecond);
  EXPECT_DOUBLE_EQ(shares.level(c, 200 * kSecond), 160);
}

TEST(FairShare, WhereLanesAreNotWhatIsShortTheSmallestPartHasItsTurns) {
  World cpus(4);
  cpus.cpus(4);
  cpus.submit(1, {.cpus = 4, .weight = 4}, kMinute);
  cpus.submit(2, {.cpus = 4, .weight = 1}, kMinute);
  EXPECT_NEAR(part_of_first(cpus, 0, 100 * kHour), 0.8, 0.01);
  World licences(8);
  licences.limit(1);
  licences.submit(1, {.uses = {"licence"}, .weight = 10}, kMinute);
  licences.submit(2, {.uses = {"licence"}, .weight = 1}, kMinute);
  EXPECT_NEAR(part_of_first(licences, 0, 100 * kHour), 10 / 11.0, 0.01);
}

TEST(FairShare, ANewSweepIsNotOwedWhatOneHadNotThatHasNothingMoreToStart) {
  World world(4);
  world.submit(3, 1, 200 * kHour);
  world.last(3);
  world.run_until(0);
  world.submit(1, 1, kMinute);
  world.run_until(50 * kHour);
  world.submit(2, 1, kMinute);
  EXPECT_NEAR(part_of_first(world, 50 * kHour, 60 * kHour), 0.5, 0.02);
}

TEST(FairShareProperty, LaneTimeIsInProportionToWeights) {
  EXPECT_TRUE(rc::check([] {
    const int sweeps = *rc::gen::inRange(2, 5);
    World world(*rc::gen::inRange(1, 9));
    std::vector<int> weights;
    std::int64_t longest = 0;
    for (int i = 0; i < sweeps; ++i) {
      weights.push_back(*rc::gen::inRange(1, 5));
      const std::int64_t duration = *rc::gen::inRange<std::int64_t>(3, 10) * kMinute;
      world.submit(i + 1, weights.back(), duration);
      longest = std::max(longest, duration);
    }
    world.run_until(100 * longest);
    std::vector<std::int64_t> before;
    for (int i = 0; i < sweeps; ++i) before.push_back(world.had(i + 1));
    world.run_until(500 * longest);
    double all = 0;
    double all_weights = 0;
    for (int i = 0; i < sweeps; ++i) {
      all += static_cast<double>(world.had(i + 1) - before[static_cast<std::size_t>(i)]);
      all_weights += weights[static_cast<std::size_t>(i)];
    }
    for (int i = 0; i < sweeps; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double part = static_cast<double>(world.had(i + 1) - before[at]) / all;
      const double due = weights[at] / all_weights;
      RC_ASSERT(part > 0.95 * due && part < 1.05 * due);
    }
  }));
}

// ---- the order

// Written down a second time: by fractions, and with a sort of everything.
TEST(StartingOrderProperty, IsThatOfTheQueueAndThoseThatShareStandTogether) {
  EXPECT_TRUE(rc::check([] {
    ReadyQueue queue;
    Capacity capacity;
    capacity.now_ns = kHour;
    capacity.cpu_lanes.size = *rc::gen::inRange(1, 40);
    FairShare& shares = capacity.shares;
    using Kind = std::pair<int, SweepId>;  // priority, sweep
    std::map<Kind, int> lanes;
    std::map<Kind, double> levels;  // after an hour
    const int steps = *rc::gen::inRange(0, 12);
    int slot = 0;
    for (int i = 0; i < steps; ++i) {
      const StepKey key{.sweep = {1 + i / 2}, .step = static_cast<std::int16_t>(i % 2)};
      Demand demand{.priority = *rc::gen::inRange(0, 3), .weight = *rc::gen::inRange(0, 3)};
      if (*rc::gen::inRange(0, 4) == 0) demand.max_parallel = 0;  // barred
      queue.declare(key, demand);
      if (*rc::gen::inRange(0, 4) > 0) queue.insert({.id = {i + 1}, .step = key, .run = i});
      for (int n = *rc::gen::inRange(0, 3); n > 0; --n) {
        if (slot == capacity.cpu_lanes.size) break;
        capacity.now_ns = 0;
        capacity.occupy(key, demand, {.pool = LaneId::Pool::Cpu, .slot = slot++}, {}, "");
        capacity.now_ns = kHour;
        if (demand.weight == 0) continue;
        ++lanes[{demand.priority, key.sweep}];
        levels[{demand.priority, key.sweep}] += 3600.0 / demand.weight;
      }
      const int overtaken = *rc::gen::element(0, kMaxOvertaken - 1, kMaxOvertaken);
      queue.take({.id = {99}, .step = {.sweep = {99}}},
                 std::vector<ClassKey>(static_cast<std::size_t>(overtaken), key));
    }
    std::map<Kind, int> weights;  // of those that wait
    std::set<Kind> able;
    for (const ReadyQueue::Head& head : queue.heads()) {
      const Demand& demand = *queue.demand(head.job.key());
      if (demand.weight == 0) continue;
      const Kind kind{head.priority, head.job.step.sweep};
      int& its = weights[kind];
      if (demand.max_parallel) continue;  // barred
      its = std::max(its, demand.weight);
      able.insert(kind);
    }
    // A new one has that of the lowest of those that are at work and compete, else of all at work.
    std::map<Kind, double> then;
    for (const auto& [kind, weight] : weights) {
      double lowest = std::numeric_limits<double>::max();
      double of_all = lowest;
      for (const auto& [other, level] : levels) {
        if (other.first != kind.first) continue;
        of_all = std::min(of_all, level);
        if (able.contains(other)) lowest = std::min(lowest, level);
      }
      const double none = std::numeric_limits<double>::max();
      const auto known = levels.find(kind);
      then[kind] = known != levels.end() ? known->second
                   : lowest < none       ? lowest
                   : of_all < none       ? of_all
                                         : 0;
    }
    std::map<int, int> oldest;  // by priority: the place of the first that shares
    std::vector<std::tuple<int, int, bool, int, double, int, JobId>> expected;
    int place = 0;
    for (const ReadyQueue::Head& head : queue.heads()) {
      const Kind kind{head.priority, head.job.step.sweep};
      if (queue.demand(head.job.key())->weight == 0) {
        expected.emplace_back(-head.priority, place, false, 0, 0, place, head.job.id);
      } else {
        double all = capacity.cpu_lanes.size - slot;
        double all_weights = 0;
        for (const auto& [other, weight] : weights) {
          if (other.first != head.priority || !able.contains(other)) continue;
          all += lanes[other];
          all_weights += weight;
        }
        const double part = all * weights[kind] / all_weights;
        int room = lanes[kind] + 1 < part + 1e-9 ? 0 : lanes[kind] < part - 1e-9 ? 1 : 2;
        if (!able.contains(kind)) room = 2;
        expected.emplace_back(
            -head.priority, oldest.try_emplace(head.priority, place).first->second,
            queue.overtaken(head.job.key()) < kMaxOvertaken, room, then[kind], place, head.job.id);
      }
      ++place;
    }
    std::sort(expected.begin(), expected.end());
    StartingOrder order(queue, capacity, shares);
    for (const auto& one : expected) {
      const ReadyQueue::Head* next = order.next();
      RC_ASSERT(next != nullptr);
      RC_ASSERT(next->job.id == std::get<JobId>(one));
    }
    RC_ASSERT(order.next() == nullptr);
  }));
}

}  // namespace
}  // namespace pergpu
