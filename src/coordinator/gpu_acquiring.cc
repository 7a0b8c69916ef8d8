// Between the choice of a job and its start on GPUs: their leases are taken and they are looked at.
#include <algorithm>
#include <utility>

#include "coordinator/coordinator.h"
#include "state/readiness.h"

namespace pergpu {

/// A queued job wants a GPU, and no look has shown one that it may have.
bool Coordinator::misses_gpu() const {
  return std::any_of(
      queue_.heads().begin(), queue_.heads().end(), [&](const ReadyQueue::Head& head) {
        const Demand& demand = *queue_.demand(head.job.key());
        if (demand.pool != LaneId::Pool::Gpu) return false;
        if (demand.devices.empty()) return !parts_.gpus->any();
        return std::none_of(
            demand.devices.begin(), demand.devices.end(),
            [&](const std::string& uuid) { return parts_.gpus->facts(uuid) != nullptr; });
      });
}

/// Leases and a look come first; the answer is a start or makes room again.
void Coordinator::acquire(const Choice& choice, int overtaken) {
  const JobId job = choice.job.id;
  const Demand& demand = *queue_.demand(choice.job.key());
  acquiring_.emplace(job, Acquiring{choice, demand, overtaken});
  parts_.gpus->acquire(choice.gpus, job, demand, choice.lane, [this, job](bool is_ready) {
    auto node = acquiring_.extract(job);
    if (node.empty()) return;
    const auto& [chosen, booked, before] = node.mapped();
    // Meanwhile it may have been cancelled, or what it needs queued again.
    const Job& asked = *parts_.world->job(job);
    const bool still = asked.state == JobState::Queued &&
                       readiness(*parts_.world, asked).readiness == Readiness::Ready;
    if (is_ready && still && may_begin() && !frozen_) {
      begin(chosen, booked);
      return;
    }
    capacity_.now_ns = parts_.clock->now().boot_ns;
    capacity_.vacate(chosen.job.step, booked, chosen.lane, chosen.gpus, true, false);
    for (const std::string& uuid : chosen.gpus) parts_.gpus->forgo(uuid, job);
    refresh(job);
    queue_.untake(chosen.job, before, chosen.overtaken);
  });
  parts_.gpus->fill(capacity_);
}

int Coordinator::count_acquiring(StepKey step) const {
  return static_cast<int>(
      std::count_if(acquiring_.begin(), acquiring_.end(),
                    [&](const auto& entry) { return entry.second.choice.job.step == step; }));
}

/// A job that waits could use this GPU.
bool Coordinator::wants_gpu(const std::string& uuid) const {
  // A job whose acquisition was answered gets the answer by a timer and is not in the queue until
  // then.
  for (const auto& [job, acquiring] : acquiring_) {
    const std::vector<std::string>& its = acquiring.choice.gpus;
    if (std::find(its.begin(), its.end(), uuid) != its.end()) return true;
  }
  return std::any_of(
      queue_.heads().begin(), queue_.heads().end(), [&](const ReadyQueue::Head& head) {
        const Demand& demand = *queue_.demand(head.job.key());
        if (demand.pool != LaneId::Pool::Gpu) return false;
        return demand.devices.empty() || std::find(demand.devices.begin(), demand.devices.end(),
                                                   uuid) != demand.devices.end();
      });
}

}  // namespace pergpu
