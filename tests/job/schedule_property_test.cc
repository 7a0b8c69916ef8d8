// Random machines, demands, arrivals and ends: what holds of every schedule.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <set>

#include "job/schedule/schedule.h"
#include "job/schedule/starting_order.h"

namespace pergpu {
namespace {

constexpr int kCpus = 16;
constexpr std::uint64_t kMemory = 64;

template <typename T>
std::optional<T> maybe(int percent, T lowest, T highest) {
  if (*rc::gen::inRange(0, 100) >= percent) return std::nullopt;
  return *rc::gen::inRange(lowest, static_cast<T>(highest + 1));
}

Demand random_demand(bool gpus) {
  Demand d;
  d.pool = gpus && *rc::gen::arbitrary<bool>() ? LaneId::Pool::Gpu : LaneId::Pool::Cpu;
  d.gpus = d.pool == LaneId::Pool::Gpu ? *rc::gen::inRange(1, 4) : 0;
  if (d.gpus > 0 && *rc::gen::inRange(0, 3) == 0) d.gpu_pattern = "A*";
  d.cpus = maybe<int>(50, 1, 12);
  d.memory_bytes = maybe<std::uint64_t>(30, 1, 64);
  d.overcommit = *rc::gen::inRange(0, 8) == 0;
  d.max_parallel = maybe<int>(30, 1, 3);
  d.max_starting = maybe<int>(20, 1, 2);
  if (*rc::gen::inRange(0, 3) == 0) d.uses.push_back("db");
  if (*rc::gen::inRange(0, 4) == 0) d.uses.push_back("licence");
  d.priority = *rc::gen::inRange(-1, 2);
  d.weight = *rc::gen::inRange(0, 3);
  return d;
}

struct Live {
  Choice choice;
  bool starting = true;
};

// Plays against choose() and checks it with rules written down a second time.
class Model {
 public:
  Model() {
    const int gpus = *rc::gen::inRange(0, 4);
    for (int i = 0; i < gpus; ++i) {
      capacity.gpus.push_back({.id = {.pool = LaneId::Pool::Gpu, .slot = i},
                               .uuid = "GPU-" + std::to_string(i),
                               .name = i % 2 == 0 ? "A100" : "H100"});
    }
    capacity.cpu_lanes.size = *rc::gen::inRange(1, 6);
    capacity.cpus = kCpus;
    capacity.memory_bytes = kMemory;
    capacity.limits["db"].value = *rc::gen::inRange(1, 4);
    capacity.limits["licence"].value = *rc::gen::inRange(1, 3);
    const int classes = *rc::gen::inRange(1, 6);
    for (int i = 0; i < classes; ++i) {
      const StepKey key{.sweep = {1 + i / 2}, .step = static_cast<std::int16_t>(i % 2)};
      keys.push_back(key);
      queue.declare(key, random_demand(gpus > 0));
    }
  }

  void arrive() {
    const StepKey key = keys[*rc::gen::inRange<std::size_t>(0, keys.size())];
    const std::int64_t id = next_id_++;
    queue.insert({.id = {id},
                  .step = key,
                  .run = static_cast<std::int32_t>(id),
                  .expected_ns = *rc::gen::element<std::int64_t>(0, 0, 10, 20)});
  }

  // Starts what can start and checks each choice.  Returns how many started.
  int settle() {
    int started = 0;
    while (true) {
      const std::optional<Choice> choice = choose(queue, capacity);
      if (!choice) {
        check_nothing_fits();
        return started;
      }
      check_choice(*choice);
      queue.take(choice->job, choice->overtaken);
      const Demand& demand = *queue.demand(choice->job.step);
      capacity.occupy(choice->job.step, demand, choice->lane, choice->gpus, "busy");
      live.push_back({*choice});
      check_totals();
      ++started;
    }
  }

  void end_one() {
    if (live.empty()) return;
    const std::size_t index = *rc::gen::inRange<std::size_t>(0, live.size());
    const Live gone = live[index];
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(index));
    const Demand& demand = *queue.demand(gone.choice.job.step);
    capacity.vacate(gone.choice.job.step, demand, gone.choice.lane, gone.choice.gpus,
                    gone.starting);
  }

  void start_up_one() {
    for (Live& one : live) {
      if (!one.starting) continue;
      one.starting = false;
      capacity.started_up(one.choice.job.step);
      return;
    }
  }

  ReadyQueue queue;
  Capacity capacity;
  std::vector<StepKey> keys;
  std::vector<Live> live;

 private:
  // ---- the rules, from the live attempts alone ----------------------------------------------

  int count(StepKey key, bool starting_only) const {
    return static_cast<int>(std::count_if(live.begin(), live.end(), [&](const Live& one) {
      return one.choice.job.step == key && (one.starting || !starting_only);
    }));
  }
  int units(const std::string& limit) const {
    int sum = 0;
    for (const Live& one : live) {
      const Demand& d = *queue.demand(one.choice.job.step);
      sum += static_cast<int>(std::count(d.uses.begin(), d.uses.end(), limit));
    }
    return sum;
  }
  int reserved_cpus() const {
    int sum = 0;
    for (const Live& one : live) sum += queue.demand(one.choice.job.step)->reserved_cpus();
    return sum;
  }
  std::uint64_t reserved_memory() const {
    std::uint64_t sum = 0;
    for (const Live& one : live) sum += queue.demand(one.choice.job.step)->reserved_memory();
    return sum;
  }
  bool lane_free(const Demand& d) const {
    if (d.pool == LaneId::Pool::Cpu) {
      const auto used = std::count_if(live.begin(), live.end(), [](const Live& one) {
        return one.choice.lane.pool == LaneId::Pool::Cpu;
      });
      return used < capacity.cpu_lanes.size;
    }
    return count_gpus(d, true) >= d.gpus;
  }
  // That suit; `free`: and that no job has.
  int count_gpus(const Demand& d, bool free) const {
    return static_cast<int>(
        std::count_if(capacity.gpus.begin(), capacity.gpus.end(), [&](const GpuLane& gpu) {
          const bool used = std::any_of(live.begin(), live.end(), [&](const Live& one) {
            const std::vector<std::string>& its = one.choice.gpus;
            return std::find(its.begin(), its.end(), gpu.uuid) != its.end();
          });
          return !(free && used) && (d.gpu_pattern.empty() || gpu.name.starts_with("A"));
        }));
  }
  bool gathers(StepKey key) const {
    const Demand& d = *queue.demand(key);
    return d.gpus > 1 && count_gpus(d, false) >= d.gpus;
  }
  bool fits_but_for_reservations(StepKey key) const {
    const Demand& d = *queue.demand(key);
    if (d.max_parallel && count(key, false) >= *d.max_parallel) return false;
    if (d.max_starting && count(key, true) >= *d.max_starting) return false;
    for (const std::string& name : d.uses) {
      if (units(name) >= capacity.limits.at(name).value) return false;
    }
    return lane_free(d);
  }
  bool fits(StepKey key) const {
    const Demand& d = *queue.demand(key);
    if (!fits_but_for_reservations(key)) return false;
    const bool cpus = d.reserved_cpus() == 0 || reserved_cpus() + d.reserved_cpus() <= kCpus;
    const bool memory =
        d.reserved_memory() == 0 || reserved_memory() + d.reserved_memory() <= kMemory;
    return cpus && memory;
  }
  bool room_may_be_kept() const {
    return std::any_of(keys.begin(), keys.end(), [&](StepKey key) {
      return queue.overtaken(key) >= kMaxOvertaken &&
             (fits_but_for_reservations(key) || gathers(key));
    });
  }

  void check_choice(const Choice& choice) const {
    const StepKey key = choice.job.step;
    RC_ASSERT(fits(key));
    // The right one of its class, and nothing that fits comes before it.
    FairShare shares = capacity.shares;
    StartingOrder order(queue, capacity, shares);
    for (const ReadyQueue::Head* head = order.next(); head->job != choice.job;
         head = order.next()) {
      RC_ASSERT(head->job.step != key);
      if (!room_may_be_kept()) RC_ASSERT(!fits(head->job.step));
    }
    for (const Live& one : live) RC_ASSERT(one.choice.lane != choice.lane);
    RC_ASSERT(choice.gpus.size() == static_cast<std::size_t>(queue.demand(key)->gpus));
  }

  void check_nothing_fits() const {
    if (room_may_be_kept()) return;
    for (const ReadyQueue::Head& head : queue.heads()) RC_ASSERT(!fits(head.job.step));
  }

  void check_totals() const {
    RC_ASSERT(reserved_cpus() <= kCpus);
    RC_ASSERT(reserved_memory() <= kMemory);
    RC_ASSERT(reserved_cpus() == capacity.reserved_cpus);
    RC_ASSERT(reserved_memory() == capacity.reserved_memory);
    std::set<LaneId> lanes;
    std::set<std::string> gpus;
    for (const Live& one : live) {
      RC_ASSERT(lanes.insert(one.choice.lane).second);
      for (const std::string& gpu : one.choice.gpus) RC_ASSERT(gpus.insert(gpu).second);
    }
    for (const auto& [name, use] : capacity.limits) {
      RC_ASSERT(units(name) == use.live);
      RC_ASSERT(units(name) <= use.value);
    }
    for (StepKey key : keys) {
      const Demand& d = *queue.demand(key);
      if (d.max_parallel) RC_ASSERT(count(key, false) <= *d.max_parallel);
      if (d.max_starting) RC_ASSERT(count(key, true) <= *d.max_starting);
    }
  }

  std::int64_t next_id_ = 1;
};

TEST(ScheduleProperty, LimitsHoldOrderHoldsAndNoLaneIdlesForNothing) {
  EXPECT_TRUE(rc::check([] {
    Model model;
    const int moves = *rc::gen::inRange(10, 120);
    for (int i = 0; i < moves; ++i) {
      switch (*rc::gen::inRange(0, 4)) {
        case 0:
        case 1:
          model.arrive();
          break;
        case 2:
          model.start_up_one();
          break;
        case 3:
          model.end_one();
          break;
      }
      model.settle();
    }
  }));
}

TEST(ScheduleProperty, EverythingThatCanFitIsStartedInTheEnd) {
  EXPECT_TRUE(rc::check([] {
    Model model;
    const int jobs = *rc::gen::inRange(1, 80);
    for (int i = 0; i < jobs; ++i) model.arrive();
    do {
      model.settle();
      model.end_one();
    } while (!model.live.empty() || model.settle() > 0);
    for (const ReadyQueue::Head& head : model.queue.heads()) {
      RC_ASSERT(never_fits(*model.queue.demand(head.job.step), model.capacity) != "");
    }
  }));
}

}  // namespace
}  // namespace pergpu
