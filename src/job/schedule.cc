// choose() walks the heads of the classes in starting order and takes the first that fits.  Room
// that is kept for an overtaken job is a Claim: made when the walk passes that job, seen by all
// that come after it, gone with the walk.
#include "job/schedule.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "job/text.h"

namespace pergpu {
namespace {

// What keeps the jobs of a class from starting.  Lanes come before reservations: a class that waits
// for a reservation waits for nothing else.
enum class Obstacle : std::uint8_t {
  None,
  MaxParallel,
  Limit,
  MaxStarting,
  TooBig,  // asks for more than the machine has: waits for ever, claims nothing
  Lane,
  Cpus,
  Memory,
};

struct Finding {
  Obstacle obstacle = Obstacle::None;
  const std::string* limit = nullptr;  // Obstacle::Limit: its name
  bool kept = false;                   // there is room, but it is kept for another job
  LaneId lane = {};                    // None, Cpus, Memory: where it would run
  std::vector<std::string> gpus = {};
};

// Room kept for the first job in the order that was overtaken too often.
struct Claim {
  const Demand* demand = nullptr;  // null: nothing is kept
  LaneId lane = {};
  std::vector<std::string> gpus = {};

  int cpus() const { return demand ? demand->reserved_cpus() : 0; }
  std::uint64_t memory() const { return demand ? demand->reserved_memory() : 0; }
  int units(const std::string& limit) const {
    return demand ? static_cast<int>(std::count(demand->uses.begin(), demand->uses.end(), limit))
                  : 0;
  }
  int lanes(LaneId::Pool pool, SweepId sweep) const {
    return demand && lane.pool == pool && lane.sweep == sweep ? 1 : 0;
  }
  bool has_gpu(const std::string& uuid) const {
    return std::find(gpus.begin(), gpus.end(), uuid) != gpus.end();
  }
};

bool allows(const Demand& demand, const GpuLane& gpu) {
  if (!demand.devices.empty() &&
      std::find(demand.devices.begin(), demand.devices.end(), gpu.uuid) == demand.devices.end()) {
    return false;
  }
  const bool is_large_enough =
      gpu.memory_bytes == 0 || demand.gpu_memory_bytes.value_or(0) <= gpu.memory_bytes;
  return is_large_enough && gpu_name_matches(demand.gpu_pattern, gpu.name);
}

bool free_for(const Demand& demand, const GpuLane& gpu) {
  return gpu.busy.empty() && !is_kept_off(demand, gpu);
}

void find_gpus(const Demand& demand, const Capacity& capacity, const Claim& claim,
               const std::string& avoided, Finding& out) {
  const std::size_t asked = static_cast<std::size_t>(std::max(1, demand.gpus));
  for (const bool is_avoided : {false, true}) {
    for (const GpuLane& gpu : capacity.gpus) {
      if (!allows(demand, gpu) || !free_for(demand, gpu)) continue;
      if ((!avoided.empty() && gpu.uuid == avoided) != is_avoided) continue;
      if (claim.has_gpu(gpu.uuid)) {
        out.kept = true;
        continue;
      }
      if (out.gpus.empty()) out.lane = gpu.id;
      out.gpus.push_back(gpu.uuid);
      if (out.gpus.size() == asked) return;
    }
  }
  out.gpus.clear();
  out.obstacle = Obstacle::Lane;
}

const LanePool* cpu_pool(const Demand& demand, SweepId sweep, const Capacity& capacity) {
  if (demand.pool == LaneId::Pool::Cpu) return &capacity.cpu_lanes;
  const auto own = capacity.sweep_lanes.find(sweep);
  return own == capacity.sweep_lanes.end() ? nullptr : &own->second;
}

void find_lane(StepKey key, const Demand& demand, const Capacity& capacity, const Claim& claim,
               const std::string& avoided, Finding& out) {
  if (demand.pool == LaneId::Pool::Gpu) {
    find_gpus(demand, capacity, claim, avoided, out);
    return;
  }
  const SweepId owner = demand.pool == LaneId::Pool::Sweep ? key.sweep : SweepId{};
  const LanePool* pool = cpu_pool(demand, key.sweep, capacity);
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

bool too_big(const Demand& demand, const Capacity& capacity) {
  return (capacity.cpus > 0 && demand.reserved_cpus() > capacity.cpus) ||
         (capacity.memory_bytes > 0 && demand.reserved_memory() > capacity.memory_bytes);
}

Finding examine(StepKey key, const Demand& demand, const Capacity& capacity, const Claim& claim,
                const std::string& avoided = {}) {
  Finding found;
  LiveCount count;
  if (const auto live = capacity.live.find(key); live != capacity.live.end()) count = live->second;
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
  if (too_big(demand, capacity)) {
    found.obstacle = Obstacle::TooBig;
    return found;
  }
  find_lane(key, demand, capacity, claim, avoided, found);
  if (found.obstacle == Obstacle::None) find_reservation(demand, capacity, claim, found);
  return found;
}

bool waits_for_reservation(const Finding& found) {
  return found.obstacle == Obstacle::Cpus || found.obstacle == Obstacle::Memory;
}

// Keeps room for the class of `head` if it is due and nobody before it has a claim.
void claim_if_due(const ReadyQueue& queue, const ReadyQueue::Head& head, const Demand& demand,
                  const Finding& found, Claim& claim) {
  if (claim.demand != nullptr || queue.overtaken(head.job.key()) < kMaxOvertaken) return;
  claim = Claim{.demand = &demand, .lane = found.lane, .gpus = found.gpus};
}

std::string with_memory(const Demand& demand) {
  if (!demand.gpu_memory_bytes) return "";
  return fmt::format(" with {} of memory", size_text(*demand.gpu_memory_bytes));
}

std::string gpu_words(const Demand& demand, const Capacity& capacity) {
  int allowed = 0;
  int busy = 0;
  int foreign = 0;
  bool any_quarantined = false;
  const GpuLane* example = nullptr;
  const GpuLane* notable = nullptr;
  for (const GpuLane& gpu : capacity.gpus) {
    if (!allows(demand, gpu)) continue;
    ++allowed;
    if (!gpu.busy.empty()) ++busy;
    any_quarantined = any_quarantined || gpu.busy.starts_with("is quarantined");
    // A job of ours is no news; another user's lease or a dirty GPU is.
    if (!gpu.busy.empty() && !gpu.busy.starts_with("runs job") && notable == nullptr)
      notable = &gpu;
    if (gpu.busy.empty() && !free_for(demand, gpu)) {
      ++foreign;
      example = &gpu;
    }
  }
  const std::string kind = demand.gpu_pattern.empty() ? "" : fmt::format(" {}", demand.gpu_pattern);
  if (allowed == 0) {
    return fmt::format("there is no GPU{}{} that it may use", kind, with_memory(demand));
  }
  std::string words = busy == allowed && allowed > 1
                          ? fmt::format("all {}{} GPUs are in use", allowed, kind)
                          : fmt::format("{} of {}{} GPUs in use", busy, allowed, kind);
  if (allowed == 1 && busy == 1) words = fmt::format("the only{} GPU is in use", kind);
  if (any_quarantined) words += " or quarantined";
  if (notable != nullptr) {
    words += fmt::format(" ({}: {})", to_string(notable->id), notable->busy);
  }
  if (foreign > 0) {
    words += fmt::format(", {} used by others ({}: {})", foreign, to_string(example->id),
                         example->outsiders);
  }
  return words;
}

std::string lane_words(StepKey key, const Demand& demand, const Capacity& capacity) {
  if (demand.pool == LaneId::Pool::Gpu) return gpu_words(demand, capacity);
  const LanePool* pool = cpu_pool(demand, key.sweep, capacity);
  if (pool == nullptr || pool->size <= 0) return "there is no lane it could run on";
  return fmt::format("waits for a free lane: {} of {} are in use", pool->in_use(), pool->size);
}

std::string words(StepKey key, const Demand& demand, const Capacity& capacity, const Claim& claim,
                  const Finding& found) {
  const std::string kept_for =
      found.kept && claim.demand
          ? fmt::format("; the room there is is kept for step {}, which was overtaken too often",
                        claim.demand->step_name)
          : "";
  switch (found.obstacle) {
    case Obstacle::None:
      return "";
    case Obstacle::MaxParallel:
      return fmt::format("max_parallel = {} of step {} is reached", *demand.max_parallel,
                         demand.step_name);
    case Obstacle::Limit: {
      const LimitUse& use = capacity.limits.at(*found.limit);
      return fmt::format("limit {} = {} is reached by {} live job{}{}", *found.limit, use.value,
                         use.live, use.live == 1 ? "" : "s", kept_for);
    }
    case Obstacle::MaxStarting:
      return fmt::format("max_starting = {} of step {} is reached: others are still in start-up",
                         *demand.max_starting, demand.step_name);
    case Obstacle::TooBig:
      return never_fits(demand, capacity);
    case Obstacle::Lane:
      return lane_words(key, demand, capacity) + kept_for;
    case Obstacle::Cpus:
      return fmt::format("asks {} cpus, {} of {} are reserved{}", demand.reserved_cpus(),
                         capacity.reserved_cpus, capacity.cpus, kept_for);
    case Obstacle::Memory:
      return fmt::format("asks {} of memory, {} of {} are reserved{}",
                         size_text(demand.reserved_memory()), size_text(capacity.reserved_memory),
                         size_text(capacity.memory_bytes), kept_for);
  }
  return "";
}

}  // namespace

bool gpu_name_matches(const std::string& pattern, const std::string& name) {
  return pattern.empty() || ::fnmatch(pattern.c_str(), name.c_str(), FNM_CASEFOLD) == 0;
}

std::optional<Choice> choose(const ReadyQueue& queue, const Capacity& capacity,
                             const Avoided& avoided) {
  Claim claim;
  std::vector<ClassKey> passed;  // wait for a reservation
  for (const ReadyQueue::Head& head : queue.heads()) {
    const Demand& demand = *queue.demand(head.job.key());
    const bool may_avoid = avoided && demand.pool == LaneId::Pool::Gpu;
    Finding found = examine(head.job.step, demand, capacity, claim,
                            may_avoid ? avoided(head.job.id) : std::string());
    if (found.obstacle == Obstacle::None) {
      const bool reserves = demand.reserved_cpus() > 0 || demand.reserved_memory() > 0;
      if (!reserves) passed.clear();
      return Choice{.job = head.job,
                    .lane = found.lane,
                    .gpus = std::move(found.gpus),
                    .overtaken = std::move(passed)};
    }
    if (!waits_for_reservation(found)) continue;
    passed.push_back(head.job.key());
    claim_if_due(queue, head, demand, found, claim);
  }
  return std::nullopt;
}

std::string why_not(const ReadyQueue& queue, ClassKey key, const Capacity& capacity) {
  const Demand* asked = queue.demand(key);
  if (asked == nullptr) return "";
  Claim claim;
  for (const ReadyQueue::Head& head : queue.heads()) {
    if (head.job.key() == key) break;
    const Demand& demand = *queue.demand(head.job.key());
    const Finding found = examine(head.job.step, demand, capacity, claim);
    if (waits_for_reservation(found)) claim_if_due(queue, head, demand, found, claim);
  }
  return words(key.step, *asked, capacity, claim, examine(key.step, *asked, capacity, claim));
}

std::string never_fits(const Demand& demand, const Capacity& capacity) {
  if (capacity.cpus > 0 && demand.reserved_cpus() > capacity.cpus) {
    return fmt::format("asks {} cpus, this machine has {}", demand.reserved_cpus(), capacity.cpus);
  }
  if (capacity.memory_bytes > 0 && demand.reserved_memory() > capacity.memory_bytes) {
    return fmt::format("asks {} of memory, this machine has {}",
                       size_text(demand.reserved_memory()), size_text(capacity.memory_bytes));
  }
  if (demand.pool == LaneId::Pool::Gpu) {
    const auto allowed = std::count_if(capacity.gpus.begin(), capacity.gpus.end(),
                                       [&](const GpuLane& gpu) { return allows(demand, gpu); });
    if (allowed < std::max(1, demand.gpus)) {
      std::string names;
      for (const GpuLane& gpu : capacity.gpus) {
        names += (names.empty() ? "" : ", ") + gpu.name;
        if (demand.gpu_memory_bytes) names += fmt::format(" ({})", size_text(gpu.memory_bytes));
      }
      return fmt::format(
          "asks {} GPU{}{}{}, it may use {} of this machine's {}{}{}", std::max(1, demand.gpus),
          demand.gpus > 1 ? "s" : "", demand.gpu_pattern.empty() ? "" : " " + demand.gpu_pattern,
          with_memory(demand), allowed, capacity.gpus.size(), names.empty() ? "" : ": ", names);
    }
  }
  for (const std::string& name : demand.uses) {
    const auto limit = capacity.limits.find(name);
    if (limit != capacity.limits.end() && limit->second.value < 1) {
      return fmt::format("uses limit {}, which is {}", name, limit->second.value);
    }
  }
  return "";
}

}  // namespace pergpu
