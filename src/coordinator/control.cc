// What people ask for: cancel, hold, release, retry, Ctrl-C.  Each is a set of events; nothing is
// answered before they are durable (server.cc uses when_durable()).
#include <algorithm>
#include <set>

#include "coordinator/coordinator.h"
#include "gpu/lanes.h"

namespace pergpu {

Coordinator::Changed Coordinator::cancel(const std::vector<JobId>& jobs, bool kill,
                                         const std::string& reason) {
  Changed out;
  for (JobId id : jobs) {
    const Job& job = *parts_.world->job(id);
    if (is_live(job.state)) {
      stop_attempt(job, StopCause::Cancel, reason, kill ? StopHow::Kill : StopHow::TermThenKill);
    } else if (!cancel_waiting(job, reason)) {
      out.unchanged.push_back(id.value);
      continue;
    }
    out.changed.push_back(id.value);
  }
  return out;
}

Coordinator::Changed Coordinator::cancel_queued(const std::vector<JobId>& jobs,
                                                const std::string& reason) {
  Changed out;
  for (JobId id : jobs) {
    const bool is_changed = cancel_waiting(*parts_.world->job(id), reason);
    (is_changed ? out.changed : out.unchanged).push_back(id.value);
  }
  return out;
}

/// False: it does not wait.
bool Coordinator::cancel_waiting(const Job& job, const std::string& reason) {
  if (job.state != JobState::Queued && job.state != JobState::Held) return false;
  record(job.id, event::Cancelled{reason});
  refresh(job.id);
  dependents_of(job.id);
  return true;
}

Coordinator::Changed Coordinator::hold(const std::vector<JobId>& jobs, const std::string& reason) {
  Changed out;
  for (JobId id : jobs) {
    const Job& job = *parts_.world->job(id);
    if (job.state != JobState::Queued && !is_held_by_breaker(job)) {
      out.unchanged.push_back(id.value);
      continue;
    }
    // The breaker would let it go again.
    if (job.state == JobState::Held) record(id, event::Requeued{"held by hand", true});
    record(id, event::Held{reason});
    refresh(id);
    out.changed.push_back(id.value);
  }
  return out;
}

Coordinator::Changed Coordinator::release(const std::vector<JobId>& jobs) {
  Changed out;
  std::set<StepKey> steps;
  for (JobId id : jobs) {
    if (parts_.world->job(id)->state != JobState::Held) {
      out.unchanged.push_back(id.value);
      continue;
    }
    const Job& job = *parts_.world->job(id);
    const StepKey step{job.sweep, job.step};
    if (steps.insert(step).second) breaker_.reset(step);
    record(id, event::Requeued{"released"});
    refresh(id);
    out.changed.push_back(id.value);
  }
  return out;
}

Coordinator::Changed Coordinator::retry(const std::vector<JobId>& jobs) {
  Changed out;
  std::set<StepKey> steps;
  for (JobId id : jobs) {
    const Job& job = *parts_.world->job(id);
    const bool is_cleaned = is_cleaning(job.sweep) || parts_.world->is_half_moved(job.sweep);
    if (!is_ended(job.state) || job.state == JobState::Done || !parts_.world->is_current(job) ||
        is_cleaned) {
      out.unchanged.push_back(id.value);
      continue;
    }
    const StepKey step{job.sweep, job.step};
    if (steps.insert(step).second) breaker_.reset(step);
    record(id, event::Requeued{"queued again by hand"});
    refresh(id);
    dependents_of(id);
    out.changed.push_back(id.value);
  }
  return out;
}

Result<std::vector<std::string>> Coordinator::release_gpus(const std::string& list) {
  // One that is gone from the machine is still known by its UUID.
  GpuLook known = parts_.gpus->last_look();
  for (const std::string& uuid : gpu_care_.quarantined()) {
    if (std::ranges::find(known.gpus, uuid, &GpuReading::uuid) == known.gpus.end()) {
      known.gpus.push_back({.uuid = uuid, .index = -1});
    }
  }
  Result<std::vector<std::string>> uuids = gpu::select_gpus(known, list, "--release");
  if (!uuids) return uuids;
  std::vector<std::string> released;
  for (const std::string& uuid : *uuids) {
    if (!gpu_care_.release(uuid)) continue;
    parts_.gpus->reconsider(uuid);
    released.push_back(uuid);
  }
  if (released.empty()) {
    return Error{ErrorKind::NotFound, 0, "--release " + list + ": not in quarantine"};
  }
  return released;
}

void Coordinator::interrupt(SweepId id, int level) {
  Sweep* sweep = parts_.world->sweep(id);
  if (sweep == nullptr) return;
  std::vector<JobId> queued;
  for (const Step& step : sweep->steps) {
    for (JobId job : step.current) {
      if (!job) continue;
      const Job& its = *parts_.world->job(job);
      if (its.state == JobState::Queued || is_held_by_breaker(its)) queued.push_back(job);
    }
  }
  const std::vector<JobId> live = parts_.world->live_of(id);
  hold(queued, "held by Ctrl-C");
  if (level >= 2) cancel(live, level >= 3, "stopped by Ctrl-C");
}

void Coordinator::start_nothing_more() {
  leaving_ = true;
  if (parts_.telemetry != nullptr) parts_.telemetry->save();
  learnt_.save();
}

void Coordinator::stop_all(StopCause cause, const std::string& reason) {
  std::vector<JobId> all;
  for (const auto& [id, live] : live_) all.push_back(id);
  for (const JobId id : all) {
    stop_attempt(*parts_.world->job(id), cause, reason, StopHow::TermThenKill);
  }
}

}  // namespace pergpu
