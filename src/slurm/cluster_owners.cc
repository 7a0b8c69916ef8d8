// Several coordinators of a user may know of one sweep, each on its own machine: one of them
// decides, whose name is in the folders, and the others only look.  Who submits the sweep is the
// one from then on (cluster_recovery.cc takes over what was handed over).
#include <fmt/format.h>

#include <utility>

#include "slurm/array_call.h"
#include "slurm/cluster.h"
#include "store/result_file.h"

namespace pergpu {
namespace {

constexpr char kTakenWords[] = "taken over by pergpu on ";

std::string taken_words(const std::string& owner) {
  return fmt::format("{}{}; submit the sweep here again to take it back", kTakenWords,
                     words_of_owner(owner));
}

}  // namespace

/// What was held because others had it is not others' any more.
void Cluster::let_go(JobId id) {
  const Job& job = *parts_.world->job(id);
  if (job.state != JobState::Held || !job.reason.starts_with(kTakenWords)) return;
  parts_.record(id, event::Requeued{"taken over"}, parts_.clock->now());
}

/// What others have handed over is only looked at: what its tasks report happens to the jobs here,
/// too.
void Cluster::leave_to_others(Array& array) {
  for (const auto& [index, task] : array.tasks) {
    if (task.closed) continue;
    const std::vector<JobId> jobs = task.jobs;
    for (const JobId id : jobs) hold_for(array.others, id);
  }
}

/// Nor is that handed over here which has not been handed over yet.
void Cluster::leave_rest_to(const std::string& owner, SweepId sweep) {
  const auto wanted = wanted_.find(sweep);
  if (wanted == wanted_.end()) return;
  const std::set<JobId> jobs = wanted->second;
  for (const JobId id : jobs) hold_for(owner, id);
}

void Cluster::hold_for(const std::string& owner, JobId id) {
  if (parts_.world->job(id)->state != JobState::Queued) return;
  parts_.record(id, event::Held{taken_words(owner)}, parts_.clock->now());
}

/// While it was open here another coordinator has taken it over.
void Cluster::disown(Array& array, const std::string& by) {
  array.others = by;
  leave_to_others(array);
  leave_rest_to(by, array.step.sweep);
}

/// Its folder says that these tasks, or all, are closed: what became of them was seen by others.
void Cluster::close_as_told(Array& array, const ClosedTasks& closed) {
  for (auto& [index, task] : array.tasks) {
    if (task.closed || !closed.has(index)) continue;
    const std::vector<JobId> jobs = task.jobs;
    for (const JobId id : jobs) {
      if (is_place_of(array, id) && is_live(parts_.world->job(id)->state)) {
        end(id, {.lost = true, .lost_why = "its result was never reported"});
      }
    }
    give_back(array, task);
  }
}

void Cluster::stop_looking_at(const Array& array) {
  std::erase_if(places_, [&](const auto& place) { return place.second.array == array.key; });
  arrays_.erase(std::string(array.key));
}

mode_t Cluster::mode_of(SweepId id) const {
  const Sweep* sweep = parts_.world->sweep(id);
  return handover_mode(sweep == nullptr ? 077 : sweep->context.umask);
}

/// What it has reported is in the store, once that is durable.
void Cluster::knows_all_of(const std::string& folder, mode_t mode) {
  parts_.when_durable([this, folder, mode] {
    parts_.errands->run([folder, mode, from = parts_.from] {
      const Result<std::optional<Owner>> owner = owner_of(folder);
      if (owner && *owner == Owner{from, true}) {  // still
        (void)store::write_result_file(folder, kOwner, to_text(Owner{from}), mode, false);
      }
      return [] {};
    });
  });
}

}  // namespace pergpu
