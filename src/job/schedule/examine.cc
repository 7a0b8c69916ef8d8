// GPUs are taken in rounds: those that nothing speaks against before those that are kept for
// another job but lent meanwhile, before those that others use, too, and before those on which the
// job failed.  Among those a share takes the one of which the least is left, or the most, and who
// wants several those that are nearest to each other.
#include "job/schedule/examine.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "ascii.h"
#include "job/gpu_slot.h"
#include "job/schedule/gpu_limit.h"
#include "job/schedule/gpu_set.h"

namespace pergpu {
namespace {

/// Overtaken so often, a job lends its GPUs no more: those it lent them to may have been late.
constexpr int kLendsNoMore = 2 * kMaxOvertaken;

/// May be had back in time from a job that is expected to take `expected_ns`.
bool is_lent(const Asking& asking, const Capacity& capacity, const Claim& claim) {
  return claim.lent_until_ns > 0 && asking.expected_ns > 0 &&
         asking.expected_ns <= claim.lent_until_ns - capacity.now_ns;
}

struct Candidate {
  // What is against it; what others have of it, or how far that is from all.
  std::pair<int, int> rank;
  const GpuLane* gpu = nullptr;
};

/// The best in their order; of those that come last and are equally good the nearest.  All, if they
/// do not suffice.
std::vector<const GpuLane*> best_of(std::vector<Candidate> candidates, std::size_t asked) {
  std::vector<const GpuLane*> equal;
  if (candidates.size() > asked) {
    std::vector<std::pair<int, int>> ranks;
    for (const Candidate& one : candidates) ranks.push_back(one.rank);
    const auto last = ranks.begin() + static_cast<std::ptrdiff_t>(asked - 1);
    std::nth_element(ranks.begin(), last, ranks.end());
    for (const Candidate& one : candidates) {
      if (one.rank == *last) equal.push_back(one.gpu);
    }
    std::erase_if(candidates, [&](const Candidate& one) { return one.rank >= *last; });
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.rank < b.rank; });
  std::vector<const GpuLane*> best;
  for (const Candidate& one : candidates) best.push_back(one.gpu);
  if (equal.empty()) return best;
  for (const GpuLane* gpu : nearest(best, equal, asked - best.size())) best.push_back(gpu);
  return best;
}

void find_gpus(const Asking& asking, const Capacity& capacity, const Claim& claim, Finding& out) {
  enum Against : int { Claimed = 1, Shared = 2, Doubtful = 4, Avoided = 8 };
  const Demand& demand = *asking.demand;
  const auto asked = static_cast<std::size_t>(std::max(1, demand.gpus));
  const bool may_borrow = is_lent(asking, capacity, claim);
  std::vector<Candidate> candidates;
  for (const GpuLane& gpu : capacity.gpus) {
    if (!free_for(demand, gpu) || !allows(demand, gpu)) continue;
    // Who wants several gives none of them back for one that will hardly be had.
    if (gpu.doubtful && asked > 1) continue;
    const bool is_claimed = claim.has_gpu(gpu.uuid);
    if (is_claimed && !may_borrow) {
      out.kept = true;
      continue;
    }
    const int against = (is_claimed ? Claimed : 0) + (gpu.outsiders.empty() ? 0 : Shared) +
                        (gpu.doubtful ? Doubtful : 0) +
                        (contains(asking.avoided, gpu.uuid) ? Avoided : 0);
    const int taken = gpu.parts.taken();
    candidates.push_back({.rank = {against, asking.packs ? -taken : taken}, .gpu = &gpu});
  }
  const bool suffice = candidates.size() >= asked;
  out.lane.pool = LaneId::Pool::Gpu;
  for (const GpuLane* gpu : best_of(std::move(candidates), asked)) {
    if (out.gpus.empty()) {
      out.lane = gpu->id;
      out.lane.part = gpu->parts.first_free();
    }
    out.gpus.push_back(gpu->uuid);
  }
  if (!suffice) out.obstacle = Obstacle::Lane;
}

void find_lane(const Asking& asking, const Capacity& capacity, const Claim& claim, Finding& out) {
  const Demand& demand = *asking.demand;
  if (demand.pool == LaneId::Pool::Gpu) {
    find_gpus(asking, capacity, claim, out);
    return;
  }
  const SweepId owner = demand.pool == LaneId::Pool::Sweep ? asking.key.sweep : SweepId{};
  const LanePool* pool = cpu_pool(demand, asking.key.sweep, capacity);
  const std::optional<int> slot =
      pool ? pool->free_slot(claim.lanes(demand.pool, owner)) : std::nullopt;
  if (!slot) {
    out.obstacle = Obstacle::Lane;
    out.kept = pool != nullptr && pool->free_slot().has_value();
    return;
  }
  out.lane = LaneId{.pool = demand.pool, .sweep = owner, .slot = *slot};
}

void find_reservation(const Demand& demand, const Capacity& capacity, const Claim& claim,
                      Finding& out) {
  const int cpus = demand.reserved_cpus();
  if (cpus > 0 && capacity.cpus > 0 &&
      capacity.reserved_cpus + cpus + claim.cpus() > capacity.cpus) {
    out.obstacle = Obstacle::Cpus;
    out.kept = capacity.reserved_cpus + cpus <= capacity.cpus;
    return;
  }
  const std::uint64_t memory = demand.reserved_memory();
  if (memory > 0 && capacity.memory_bytes > 0 &&
      capacity.reserved_memory + memory + claim.memory() > capacity.memory_bytes) {
    out.obstacle = Obstacle::Memory;
    out.kept = capacity.reserved_memory + memory <= capacity.memory_bytes;
  }
}

LiveCount live_of(StepKey key, const Capacity& capacity) {
  const auto live = capacity.live.find(key);
  return live == capacity.live.end() ? LiveCount() : live->second;
}

bool is_too_big(const Demand& demand, const Capacity& capacity) {
  return (capacity.cpus > 0 && demand.reserved_cpus() > capacity.cpus) ||
         (capacity.memory_bytes > 0 && demand.reserved_memory() > capacity.memory_bytes);
}

/// Our jobs share it, and nothing else is against it.
bool is_shared(const Demand& demand, const GpuLane& gpu) {
  return gpu.busy.empty() && gpu.parts.any() && allows(demand, gpu) && !is_kept_off(demand, gpu);
}

/// When `missing` more of the GPUs that it may use are expected to be free; 0: not known.
std::int64_t free_at(const Demand& demand, const Capacity& capacity, std::size_t missing) {
  std::vector<std::int64_t> ends;
  for (const GpuLane& gpu : capacity.gpus) {
    const bool is_known = gpu.ends && gpu.free_at_ns > 0;
    if (is_known && allows(demand, gpu) && !is_kept_off(demand, gpu)) {
      ends.push_back(gpu.free_at_ns);
    }
  }
  if (missing == 0 || ends.size() < missing) return 0;
  std::sort(ends.begin(), ends.end());
  return ends[missing - 1];
}

}  // namespace

int Claim::units(const std::string& limit) const {
  if (!keeps_all()) return 0;
  return static_cast<int>(std::count(demand->uses.begin(), demand->uses.end(), limit));
}

bool Claim::has_gpu(const std::string& uuid) const { return contains(gpus, uuid); }

Finding examine(const Asking& asking, const Capacity& capacity, const Claim& claim) {
  const Demand& demand = *asking.demand;
  Finding found;
  const LiveCount count = live_of(asking.key, capacity);
  if (demand.max_parallel && count.live >= *demand.max_parallel) {
    found.obstacle = Obstacle::MaxParallel;
    return found;
  }
  for (const std::string& name : demand.uses) {
    const auto limit = capacity.limits.find(name);
    if (limit == capacity.limits.end()) continue;
    const int units = static_cast<int>(std::count(demand.uses.begin(), demand.uses.end(), name));
    const int free = limit->second.value - limit->second.live;
    if (units + claim.units(name) > free) {
      found.obstacle = Obstacle::Limit;
      found.limit = &name;
      found.kept = units <= free;
      return found;
    }
  }
  if (demand.max_starting && count.starting >= *demand.max_starting) {
    found.obstacle = Obstacle::MaxStarting;
    return found;
  }
  if (is_too_big(demand, capacity)) {
    found.obstacle = Obstacle::TooBig;
    return found;
  }
  find_lane(asking, capacity, claim, found);
  if (found.obstacle == Obstacle::None) find_reservation(demand, capacity, claim, found);
  return found;
}

bool gathers_gpus(const Demand& demand, const Capacity& capacity, const Finding& found) {
  const bool waits = found.obstacle == Obstacle::Lane && demand.pool == LaneId::Pool::Gpu;
  if (!waits) return false;
  const bool may_be_overtaken =
      demand.gpus > 1 || std::any_of(capacity.gpus.begin(), capacity.gpus.end(),
                                     [&](const GpuLane& gpu) { return is_shared(demand, gpu); });
  if (!may_be_overtaken) return false;
  const auto in_reach =
      std::count_if(capacity.gpus.begin(), capacity.gpus.end(), [&](const GpuLane& gpu) {
        const bool may_be_had = gpu.busy.empty() && !gpu.parts.any() ? !gpu.doubtful : gpu.ends;
        return may_be_had && allows(demand, gpu) && !is_kept_off(demand, gpu);
      });
  return in_reach >= std::max(1, demand.gpus);
}

bool is_barred(StepKey key, const Demand& demand, const Capacity& capacity) {
  const LiveCount count = live_of(key, capacity);
  if (demand.max_parallel && count.live >= *demand.max_parallel) return true;
  if (demand.max_starting && count.starting >= *demand.max_starting) return true;
  for (const std::string& name : demand.uses) {
    const auto limit = capacity.limits.find(name);
    if (limit == capacity.limits.end()) continue;
    const auto units = std::count(demand.uses.begin(), demand.uses.end(), name);
    if (units > limit->second.value) return true;
  }
  if (is_too_big(demand, capacity)) return true;
  if (demand.pool != LaneId::Pool::Gpu) return false;
  const auto in_reach =
      std::count_if(capacity.gpus.begin(), capacity.gpus.end(), [&](const GpuLane& gpu) {
        return (gpu.busy.empty() || gpu.ends) && allows(demand, gpu) && !is_kept_off(demand, gpu);
      });
  return in_reach < std::max(1, demand.gpus);
}

namespace {

/// Of the GPUs that others share those are kept that will be free first, as far as that is known,
/// and of which the least is taken: no other job joins them any more.
void keep_shared(const Demand& demand, const Capacity& capacity, std::size_t most, Claim& claim) {
  std::vector<const GpuLane*> shared;
  for (const GpuLane& gpu : capacity.gpus) {
    if (is_shared(demand, gpu) && !claim.has_gpu(gpu.uuid)) shared.push_back(&gpu);
  }
  const auto rank = [](const GpuLane* gpu) {
    return std::tuple(gpu->free_at_ns == 0, gpu->free_at_ns, gpu->parts.taken());
  };
  std::stable_sort(shared.begin(), shared.end(),
                   [&](const GpuLane* a, const GpuLane* b) { return rank(a) < rank(b); });
  for (const GpuLane* gpu : shared) {
    if (claim.gpus.size() >= most) break;
    claim.gpus.push_back(gpu->uuid);
  }
}

}  // namespace

Claim claim_for(const Demand& demand, const Capacity& capacity, const Finding& found,
                int overtaken) {
  const bool gathers = found.obstacle == Obstacle::Lane;
  Claim claim{.demand = &demand, .gathers = gathers, .lane = found.lane, .gpus = found.gpus};
  const auto asked = static_cast<std::size_t>(std::max(1, demand.gpus));
  if (gathers && overtaken < kLendsNoMore) {
    claim.lent_until_ns = free_at(demand, capacity, asked - claim.gpus.size());
  }
  // One that an endless job has a part of must not be the only one.
  const std::size_t kept = overtaken < kLendsNoMore ? asked : 2 * asked;
  if (gathers) keep_shared(demand, capacity, kept, claim);
  return claim;
}

void claim_if_due(const ReadyQueue& queue, const ReadyQueue::Head& head, const Capacity& capacity,
                  const Finding& found, Claim& claim) {
  const int overtaken = queue.overtaken(head.job.key());
  if (claim.demand != nullptr || overtaken < kMaxOvertaken) return;
  claim = claim_for(*queue.demand(head.job.key()), capacity, found, overtaken);
}

bool has_room(const Demand& demand, const GpuLane& gpu) {
  if (!gpu.parts.any()) return true;
  if (demand.share == 0 || gpu.parts.taken() + demand.share > kWholeGpu) return false;
  // How much memory others will take is not known.
  if (!gpu.outsiders.empty() && demand.outsiders != Outsiders::Ignore) return false;
  return gpu.memory_bytes == 0 ||
         gpu.parts.promised() + promised_to(demand, gpu.memory_bytes) <= gpu.memory_bytes;
}

std::uint64_t needed_beside_others(const Demand& demand) {
  return ended_above(demand.gpu_memory_bytes.value_or(0));
}

bool is_kept_off(const Demand& demand, const GpuLane& gpu) {
  if (gpu.outsiders.empty() || demand.outsiders == Outsiders::Ignore) return false;
  return demand.outsiders == Outsiders::Avoid || gpu.free_bytes < needed_beside_others(demand);
}

bool allows(const Demand& demand, const GpuLane& gpu) {
  if (!demand.devices.empty() && !contains(demand.devices, gpu.uuid)) return false;
  // A program sees one instance, however many it is given.
  if (demand.gpus > 1 && is_instance(gpu.id.slot)) return false;
  if (demand.sharing == Sharing::Mig && !is_instance(gpu.id.slot)) return false;
  const bool is_large_enough =
      gpu.memory_bytes == 0 || demand.gpu_memory_bytes.value_or(0) <= gpu.memory_bytes;
  return is_large_enough && gpu_name_matches(demand.gpu_pattern, gpu.name);
}

const LanePool* cpu_pool(const Demand& demand, SweepId sweep, const Capacity& capacity) {
  if (demand.pool == LaneId::Pool::Cpu) return &capacity.cpu_lanes;
  const auto own = capacity.sweep_lanes.find(sweep);
  return own == capacity.sweep_lanes.end() ? nullptr : &own->second;
}

}  // namespace pergpu
