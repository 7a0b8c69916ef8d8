// The part of it for an allocation of several nodes that is there already: a job is handed over as
// a separate step as soon as nothing keeps it from starting, to a node with room for it.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "slurm/cluster.h"
#include "slurm/step_call.h"

namespace pergpu {

/// What runs on each node of the allocation, in their order.
std::vector<NodeShare> Cluster::used_of_nodes() const {
  std::vector<NodeShare> used(nodes_.size());
  for (const auto& entry : arrays_) {
    const Array& array = entry.second;
    const auto node = std::find_if(nodes_.begin(), nodes_.end(),
                                   [&](const auto& one) { return one.name == array.node; });
    const Sweep* sweep = parts_.world->sweep(array.step.sweep);
    if (array.open == 0 || node == nodes_.end() || sweep == nullptr) continue;
    const StepSpec& step = sweep->steps[static_cast<std::size_t>(array.step.step)].spec;
    const NodeShare share = share_of(step, *node);
    NodeShare& sum = used[static_cast<std::size_t>(node - nodes_.begin())];
    sum.gpus += share.gpus;
    sum.cpus += share.cpus;
    sum.memory_bytes += share.memory_bytes;
  }
  return used;
}

/// False: none of what is wanted can start now.
bool Cluster::hand_over_step() {
  const std::int64_t now = parts_.clock->now().boot_ns;
  std::vector<std::tuple<int, SweepId, std::size_t, JobId>> ready;  // by priority, then by age
  for (const auto& [id, wanted] : wanted_) {
    const Sweep* sweep = parts_.world->sweep(id);
    if (sweep == nullptr || to_recover_.contains(id) || pauses_.next_ns(id) > now) continue;
    const std::vector<JobId> jobs =
        ready_jobs(*parts_.world, *sweep, {wanted.begin(), wanted.end()},
                   [this](JobId job) { return holds(job); });
    for (const JobId job : jobs) {
      const int priority = parts_.world->step_of(*parts_.world->job(job)).spec.priority;
      ready.emplace_back(-priority, id, ready.size(), job);
    }
  }
  std::sort(ready.begin(), ready.end());
  std::map<StepKey, int> open;
  for (const auto& [key, array] : arrays_) open[array.step] += array.open > 0 ? 1 : 0;
  const std::vector<NodeShare> used = used_of_nodes();
  std::set<StepKey> full;
  for (const auto& [priority, id, place, job] : ready) {
    const StepKey key{id, parts_.world->job(job)->step};
    if (full.contains(key) || pauses_.next_ns(id) > now) continue;
    const Sweep& sweep = *parts_.world->sweep(id);
    const StepSpec& step = sweep.steps[static_cast<std::size_t>(key.step)].spec;
    if (const std::string why = never_fits(step, nodes_); !why.empty()) {
      parts_.record(job, event::Held{why}, parts_.clock->now());
      continue;
    }
    const bool is_limited = step.max_parallel && open[key] >= *step.max_parallel;
    const slurm::AllocationNode* node = is_limited ? nullptr : node_for(step, nodes_, used);
    if (node == nullptr) {
      full.insert(key);
    } else if (hand_over(sweep, plan_of_one(*parts_.world, sweep, job, node->name))) {
      return true;
    }
  }
  return false;
}

/// What hands it over, for an errand.
std::function<std::function<void()>()> Cluster::start_of(const Sweep& sweep, const ArrayPlan& plan,
                                                         const Array& array,
                                                         const std::string& environment) {
  const auto node = std::find_if(nodes_.begin(), nodes_.end(),
                                 [&](const auto& one) { return one.name == array.node; });
  return [this, key = array.key, folder = array.folder,
          call = step_call(sweep, plan, *node, array.folder, parts_.pergpu, environment),
          text = to_text(plan.handover)]() -> std::function<void()> {
    Result<std::shared_ptr<os::Spawned>> started =
        start_step(*steps_, call, folder, parts_.from, text);
    return [this, key, started] {
      if (started) parts_.when_ended(*started, [this] { next_look_ns_ = 0; });
      Result<std::int64_t> number =
          started ? Result<std::int64_t>(std::atoll(steps_->allocation().c_str()))
                  : Result<std::int64_t>(started.error());
      answers_.push_back([this, key, number] { submitted(key, number); });
      busy_ = false;
    };
  };
}

}  // namespace pergpu
