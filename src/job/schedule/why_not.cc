// What is said of jobs that wait, or that can never start: the first obstacle as text.
#include <fmt/format.h>

#include <algorithm>

#include "job/gpu_slot.h"
#include "job/schedule/examine.h"
#include "job/schedule/schedule.h"
#include "job/schedule/starting_order.h"
#include "job/text.h"
#include "plural.h"

namespace pergpu {
namespace {

std::string with_memory(const Demand& demand) {
  if (!demand.gpu_memory_bytes) return "";
  return fmt::format(" with {} of memory", size_text(*demand.gpu_memory_bytes));
}

/// What is missing for a job that would run beside others.
std::string room_words(const Demand& demand, const GpuLane& gpu) {
  if (demand.outsiders != Outsiders::Fit) return "";
  return fmt::format("; {} of memory free, {} needed", size_text(gpu.free_bytes),
                     size_text(needed_beside_others(demand)));
}

/// What others have of the GPU that has most left for such a job.
std::string parts_words(const Demand& demand, const Capacity& capacity) {
  const GpuLane* best = nullptr;
  for (const GpuLane& gpu : capacity.gpus) {
    const bool is_full = gpu.busy.empty() && !is_kept_off(demand, gpu) && !has_room(demand, gpu) &&
                         allows(demand, gpu);
    if (is_full && (best == nullptr || gpu.parts.taken() < best->parts.taken())) best = &gpu;
  }
  if (demand.share == 0 || best == nullptr) return "";
  std::string words = fmt::format("; {} of {} is taken by {}", share_text(best->parts.taken()),
                                  to_string(best->id), counted(best->parts.count(), "job"));
  if (best->parts.promised() > 0) {
    words += fmt::format(", with {} of its memory", size_text(best->parts.promised()));
  }
  return words;
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
    const bool is_foreign = gpu.busy.empty() && is_kept_off(demand, gpu);
    if (!is_foreign && (!gpu.busy.empty() || !has_room(demand, gpu))) ++busy;
    any_quarantined = any_quarantined || gpu.busy.starts_with("is quarantined");
    // Our own job is no news; another user's lease or a dirty GPU is.
    if (!gpu.busy.empty() && !gpu.busy.starts_with("runs job") && notable == nullptr)
      notable = &gpu;
    if (is_foreign) {
      ++foreign;
      example = &gpu;
    }
  }
  const std::string kind = demand.gpu_pattern.empty() ? "" : fmt::format(" {}", demand.gpu_pattern);
  if (allowed == 0) {
    return fmt::format("there is no GPU{}{} that it can use", kind, with_memory(demand));
  }
  std::string asks = demand.gpus > 1 ? fmt::format("asks for {} GPUs, ", demand.gpus) : "";
  if (demand.share > 0) asks = fmt::format("asks for {} of a GPU, ", share_text(demand.share));
  if (demand.is_auto && demand.share == kWholeGpu) {
    asks = "asks for a GPU to itself (what similar jobs need is unknown, or leaves no room), ";
  }
  std::string words = busy == allowed && allowed > 1
                          ? fmt::format("all {}{} GPUs are in use", allowed, kind)
                          : fmt::format("{} of {}{} GPUs in use", busy, allowed, kind);
  if (allowed == 1 && busy == 1) words = fmt::format("the only{} GPU is in use", kind);
  words = asks + words;
  if (any_quarantined) words += " or quarantined";
  if (notable != nullptr) {
    words += fmt::format(" ({}: {})", to_string(notable->id), notable->busy);
  }
  if (foreign > 0) {
    words += fmt::format(", {} used by other processes ({}: {}{})", foreign, to_string(example->id),
                         example->outsiders, room_words(demand, *example));
  }
  return words + parts_words(demand, capacity);
}

std::string lane_words(StepKey key, const Demand& demand, const Capacity& capacity) {
  if (demand.pool == LaneId::Pool::Gpu) return gpu_words(demand, capacity);
  const LanePool* pool = cpu_pool(demand, key.sweep, capacity);
  if (pool == nullptr || pool->size <= 0) return "there is no lane it can run on";
  return fmt::format("waits for a free lane ({} of {} in use)", pool->in_use(), pool->size);
}

std::string words(StepKey key, const Demand& demand, const Capacity& capacity, const Claim& claim,
                  const Finding& found) {
  const std::string kept_for = found.kept && claim.demand
                                   ? fmt::format(
                                         "; free resources are reserved for step {}, which other "
                                         "jobs have bypassed too often",
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
      return fmt::format("limit {} = {} is reached by {}{}", *found.limit, use.value,
                         counted(use.live, "live job"), kept_for);
    }
    case Obstacle::MaxStarting:
      return fmt::format(
          "max_starting = {} of step {} is reached: other jobs are still starting up",
          *demand.max_starting, demand.step_name);
    case Obstacle::TooBig:
      return never_fits(demand, capacity);
    case Obstacle::Lane:
      return lane_words(key, demand, capacity) + kept_for;
    case Obstacle::Cpus:
      return fmt::format("asks for {} CPUs, but {} of {} are reserved{}", demand.reserved_cpus(),
                         capacity.reserved_cpus, capacity.cpus, kept_for);
    case Obstacle::Memory:
      return fmt::format("asks for {} of memory, but {} of {} are reserved{}",
                         size_text(demand.reserved_memory()), size_text(capacity.reserved_memory),
                         size_text(capacity.memory_bytes), kept_for);
  }
  return "";
}

}  // namespace

std::string why_not(const ReadyQueue& queue, ClassKey key, const Capacity& capacity) {
  const Demand* asked = queue.demand(key);
  if (asked == nullptr) return "";
  Claim claim;
  FairShare shares = capacity.shares;
  StartingOrder order(queue, capacity, shares);
  for (const ReadyQueue::Head* head = order.next(); head != nullptr && head->job.key() != key;
       head = order.next()) {
    const Demand& demand = *queue.demand(head->job.key());
    const Finding found = examine({.key = head->job.step, .demand = &demand}, capacity, claim);
    if (waits_for_reservation(found) || gathers_gpus(demand, capacity, found)) {
      claim_if_due(queue, *head, capacity, found, claim);
    }
  }
  const Finding found = examine({.key = key.step, .demand = asked}, capacity, claim);
  std::string text = words(key.step, *asked, capacity, claim, found);
  const bool is_due = claim.demand == nullptr && queue.overtaken(key) >= kMaxOvertaken;
  if (is_due && !found.gpus.empty() && gathers_gpus(*asked, capacity, found)) {
    text += fmt::format("; {} {} reserved for it", found.gpus.size(),
                        found.gpus.size() == 1 ? "is" : "are");
  }
  return text;
}

std::string never_fits(const Demand& demand, const Capacity& capacity) {
  if (capacity.cpus > 0 && demand.reserved_cpus() > capacity.cpus) {
    return fmt::format("asks for {} CPUs, but this machine has {}", demand.reserved_cpus(),
                       capacity.cpus);
  }
  if (capacity.memory_bytes > 0 && demand.reserved_memory() > capacity.memory_bytes) {
    return fmt::format("asks for {} of memory, but this machine has {}",
                       size_text(demand.reserved_memory()), size_text(capacity.memory_bytes));
  }
  if (demand.pool == LaneId::Pool::Gpu) {
    const auto allowed = std::count_if(capacity.gpus.begin(), capacity.gpus.end(),
                                       [&](const GpuLane& gpu) { return allows(demand, gpu); });
    if (allowed < std::max(1, demand.gpus)) {
      std::string names;
      bool any_instance = false;
      for (const GpuLane& gpu : capacity.gpus) {
        any_instance = any_instance || is_instance(gpu.id.slot);
        names += (names.empty() ? "" : ", ") + gpu.name;
        if (demand.gpu_memory_bytes) names += fmt::format(" ({})", size_text(gpu.memory_bytes));
      }
      std::string_view note;
      if (any_instance && demand.gpus > 1) note = "; a program can use at most one MIG instance";
      if (demand.sharing == Sharing::Mig) note = "; sharing = \"mig\" needs a MIG instance";
      const std::string asked = demand.share > 0 && demand.share < kWholeGpu
                                    ? fmt::format("{} of a GPU", share_text(demand.share))
                                    : counted(std::max(1, demand.gpus), "GPU");
      return fmt::format("asks for {}{}{}, but can use {} of this machine's {}{}{}{}", asked,
                         demand.gpu_pattern.empty() ? "" : " " + demand.gpu_pattern,
                         with_memory(demand), allowed, capacity.gpus.size(),
                         names.empty() ? "" : ": ", names, note);
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
