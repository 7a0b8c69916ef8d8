// choose() walks the heads of the classes in starting order and takes the first that fits.
#include "job/schedule/schedule.h"

#include <fnmatch.h>

#include <algorithm>

#include "job/schedule/examine.h"
#include "job/schedule/starting_order.h"

namespace pergpu {
namespace {

// A class that the walk has passed, and what it waits for.
struct Passed {
  ClassKey key;
  const Demand* demand = nullptr;
  bool gathers_gpus = false;  // else it waits for a reservation
};

bool takes_of(const Passed& passed, const Demand& demand, const Finding& found,
              const Capacity& capacity) {
  if (!passed.gathers_gpus) return demand.reserved_cpus() > 0 || demand.reserved_memory() > 0;
  return std::any_of(capacity.gpus.begin(), capacity.gpus.end(), [&](const GpuLane& gpu) {
    return allows(*passed.demand, gpu) &&
           std::find(found.gpus.begin(), found.gpus.end(), gpu.uuid) != found.gpus.end();
  });
}

/// It shares with the other one, and had more.
bool has_had_more(const Passed& passed, const ReadyJob& job, const Demand& demand,
                  const Capacity& capacity) {
  if (passed.demand->weight <= 0 || demand.weight <= 0) return false;
  const FairShare::Party its(passed.key.step.sweep, *passed.demand);
  const FairShare::Party other(job.step.sweep, demand);
  return its.shares_with(other) && capacity.shares.level(its, capacity.now_ns) >
                                       capacity.shares.level(other, capacity.now_ns);
}

Choice choice_of(const ReadyJob& job, const Demand& demand, Finding found,
                 const std::vector<Passed>& passed, const Capacity& capacity) {
  Choice choice{.job = job, .lane = found.lane};
  for (const Passed& one : passed) {
    if (has_had_more(one, job, demand, capacity)) continue;
    if (takes_of(one, demand, found, capacity)) choice.overtaken.push_back(one.key);
  }
  choice.gpus = std::move(found.gpus);
  return choice;
}

/// A job waits for GPUs without other jobs.
bool wants_whole_gpus(const ReadyQueue& queue) {
  return std::any_of(queue.heads().begin(), queue.heads().end(), [&](const ReadyQueue::Head& head) {
    const Demand& demand = *queue.demand(head.job.key());
    const bool is_part = demand.share > 0 && demand.share < kWholeGpu;
    return demand.pool == LaneId::Pool::Gpu && !is_part;
  });
}

}  // namespace

bool gpu_name_matches(const std::string& pattern, const std::string& name) {
  return pattern.empty() || ::fnmatch(pattern.c_str(), name.c_str(), FNM_CASEFOLD) == 0;
}

std::optional<Choice> choose(const ReadyQueue& queue, Capacity& capacity, const Avoided& avoided) {
  Claim claim;
  std::vector<Passed> passed;
  std::optional<bool> packs;  // looked for where it matters
  StartingOrder order(queue, capacity, capacity.shares);
  while (const ReadyQueue::Head* next = order.next()) {
    const ReadyQueue::Head& head = *next;
    const Demand& demand = *queue.demand(head.job.key());
    const bool is_on_gpu = demand.pool == LaneId::Pool::Gpu;
    if (demand.share > 0 && !packs) packs = wants_whole_gpus(queue);
    Asking asking{.key = head.job.step,
                  .demand = &demand,
                  .expected_ns = head.job.expected_ns,
                  .packs = packs.value_or(false)};
    if (avoided && is_on_gpu) asking.avoided = avoided(head.job.id);
    Finding found = examine(asking, capacity, claim);
    if (found.obstacle == Obstacle::None) {
      return choice_of(head.job, demand, std::move(found), passed, capacity);
    }
    if (found.kept && is_on_gpu && claim.lent_until_ns > 0) {
      // The first of a class is its longest: a shorter one may be over in time.
      const auto shorter =
          queue.first_within(head.job.key(), claim.lent_until_ns - capacity.now_ns);
      if (shorter) {
        asking.expected_ns = shorter->expected_ns;
        if (avoided) asking.avoided = avoided(shorter->id);
        found = examine(asking, capacity, claim);
        if (found.obstacle == Obstacle::None) {
          return choice_of(*shorter, demand, std::move(found), passed, capacity);
        }
      }
    }
    const bool gathers = gathers_gpus(demand, capacity, found);
    if (!gathers && !waits_for_reservation(found)) continue;
    passed.push_back({head.job.key(), &demand, gathers});
    claim_if_due(queue, head, capacity, found, claim);
  }
  return std::nullopt;
}

}  // namespace pergpu
