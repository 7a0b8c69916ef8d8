// Why a job is where it is, in plain words: the first thing that keeps it from going on, or how it
// ended and what follows.
#include <fmt/format.h>

#include "api/shell.h"
#include "coordinator/attempt_planner.h"
#include "coordinator/coordinator.h"
#include "coordinator/describe.h"
#include "gpu/pool/began.h"
#include "job/retry_wait.h"
#include "job/text.h"
#include "slurm/cluster.h"
#include "state/readiness.h"
#include "state/simulated_sweep.h"

namespace pergpu {
namespace {

bool is_fault_of_machine(OutcomeClass cls) {
  return cls == OutcomeClass::Hardware || cls == OutcomeClass::Driver;
}

/// "1: exit code 3", "1 succeeded"
std::string words_of_attempt(const Attempt& attempt) {
  const Outcome& outcome = *attempt.outcome;
  if (outcome.cls == OutcomeClass::Ok) return fmt::format("{} succeeded", attempt.number);
  if (!outcome.reason.empty()) return fmt::format("{}: {}", attempt.number, whole_reason(outcome));
  return fmt::format("{} ended as {}", attempt.number, to_string(outcome.cls));
}

constexpr std::string_view kFirstProcess =
    " (a job ends with its first process; make that process wait for the processes it starts)";

/// The reason of a job that has ended, and which processes its last attempt left running.
std::string reason_of_end(const Job& job) {
  const bool is_of_attempt = job.last && job.last->outcome && !job.last->outcome->reason.empty() &&
                             job.reason.starts_with(job.last->outcome->reason);
  if (!is_of_attempt || job.last->outcome->left_running.empty()) return job.reason;
  // What it left behind may be what was to write it.
  const bool is_cause = job.last->outcome->cls == OutcomeClass::OutputMissing;
  return fmt::format("{}; {}{}", job.reason, job.last->outcome->left_running,
                     is_cause ? kFirstProcess : "");
}

/// Two sentences: what happened on what evidence, and what pergpu will do.
std::string fault_words(const Job& job, const std::string& now) {
  const Outcome& outcome = *job.last->outcome;
  const bool is_driver = outcome.cls == OutcomeClass::Driver;
  return fmt::format(
      "Attempt {} failed because of a {} fault ({}). The job starts again without using up a "
      "retry, {} (now: {}).",
      job.last->number, is_driver ? "driver" : "hardware", outcome.reason,
      is_driver ? "as soon as the driver works again" : "on another GPU if there is one", now);
}

}  // namespace

std::string Coordinator::why(const Job& job) const {
  const World& world = *parts_.world;
  switch (job.state) {
    case JobState::Queued: {
      if (!parts_.journal->writable()) {
        return "no jobs start because the store can't be written: " + parts_.journal->failure();
      }
      if (!starts_held_.empty()) return "no jobs start: " + starts_held_;
      const ReadinessVerdict verdict = readiness(world, job);
      if (verdict.readiness != Readiness::Ready) return verdict.words;
      if (folder_waits_->has(job.id)) return folder_waits_->words(job.id);
      if (storage_waits_->has(job)) return storage_waits_->words(job);
      std::string history;
      if (job.last && job.last->outcome && is_fault_of_machine(job.last->outcome->cls)) {
        return fault_words(job, waiting_words(job));
      }
      if (job.last && job.last->outcome) {
        history = fmt::format(" (attempt {})", words_of_attempt(*job.last));
      }
      return waiting_words(job) + history + growth_words(job) + breaker_.words_of_queued(job);
    }
    case JobState::Held: {
      const bool waits = folder_waits_->has(job.id);
      return (job.reason.empty() ? "held" : job.reason) + breaker_.words_of(job) +
             (waits ? "; " + folder_waits_->words(job.id) : "");
    }
    case JobState::Starting:
      return fmt::format("is being started on {}{}", lane_words(job.last->placement),
                         where_on_cluster(job));
    case JobState::Running: {
      auto it = live_.find(job.id);
      if (it != live_.end() && !it->second.resists.empty()) return it->second.resists;
      if (it != live_.end() && it->second.examining) {
        return "it has failed; checking its GPU for hardware errors";
      }
      if (it != live_.end() && !it->second.status.empty()) return it->second.status;
      const store::Present* present = this->present({job.id, job.last->number});
      if (present != nullptr && !present->status.empty()) return present->status;
      return fmt::format("runs on {} as process {}{}", lane_words(job.last->placement),
                         job.last->pid, where_on_cluster(job));
    }
    case JobState::Stopping: {
      std::string words =
          job.last->stop_reason.empty() ? "is being stopped" : job.last->stop_reason;
      auto it = live_.find(job.id);
      if (it != live_.end() && !it->second.resists.empty()) words += "; " + it->second.resists;
      return words;
    }
    case JobState::Done: {
      const std::string left = left_running(job);
      const std::string words =
          (job.attempts > 1 ? fmt::format("done on attempt {}", job.attempts) : "done") +
          (left.empty() ? "" : fmt::format("; {}{}", left, kFirstProcess));
      const std::string repeat = repeat_words(job);
      return repeat.empty() ? words : words + "; " + repeat;
    }
    case JobState::Failed: {
      const bool user_error =
          job.last && job.last->outcome && job.last->outcome->cls == OutcomeClass::UserError;
      const bool had_retries = job.retries_used < world.step_of(job).spec.retries.max;
      return user_error && had_retries
                 ? reason_of_end(job) + "; not retried: an error in the program or its arguments"
                 : reason_of_end(job);
    }
    case JobState::Timeout:
    case JobState::Cancelled:
    case JobState::Skipped:
    case JobState::Lost:
      return reason_of_end(job);
  }
  return {};
}

/// ", Slurm job 12_3 on n0"; "": it is not on a cluster.
std::string Coordinator::where_on_cluster(const Job& job) const {
  if (!is_on_cluster(job)) return {};
  const std::string where = cluster_->where(job.id);
  return where.empty() ? where : ", " + where;
}

/// What keeps a ready job from starting.
std::string Coordinator::waiting_words(const Job& job) const {
  const Instant now = parts_.clock->now();
  const std::int64_t wait = retry_wait_ns(job, now, began_ns(lane_use_, now.boot_ns));
  if (wait > 0) return fmt::format("waits {} before the next attempt", duration_text(wait));
  if (is_on_cluster(job)) return cluster_->why(job.id);
  if (!parts_.local->may_start())
    return "waits while the coordinator checks jobs that were running before it restarted";
  if (const auto at = acquiring_.find(job.id); at != acquiring_.end()) {
    return at->second.choice.gpus.size() > 1 ? "checking its GPUs" : "checking its GPU";
  }
  const StepKey step{job.sweep, job.step};
  const bool wants_gpu = queue_.demand(step)->pool == LaneId::Pool::Gpu;
  if (wants_gpu && !parts_.gpus->driver_trouble().empty()) {
    return "no jobs start on GPUs: " + parts_.gpus->driver_trouble();
  }
  const std::string blocked = why_not(queue_, class_of(job), capacity_);
  return blocked.empty() ? "waits for its turn" : blocked;
}

Demand Coordinator::asked_by(const Job& job) const {
  if (const LiveAttempt* attempt = live(job.id)) return attempt->demand;
  const ClassKey its = class_of(job);
  if (const Demand* usual = queue_.demand({its.step, {}, its.shape})) {
    return grown(*usual, its.growths);
  }
  const Demand* of_step = queue_.demand(its.step);
  if (of_step == nullptr) return {};
  Demand asked = *of_step;  // a sweep that has ended has no shapes in the queue
  if (const GpuShapes* shapes = learnt_.gpu_shapes(parts_.world->step_of(job).spec)) {
    const auto need = shapes->needs().find(its.shape);
    if (need != shapes->needs().end()) fit_to_need(asked, &need->second);
  }
  return grown(asked, its.growths);
}

/// What its next attempt is given more of, as a sentence; "": nothing.
std::string Coordinator::growth_words(const Job& job) const {
  const Growths growths = growths_of(job);
  const Demand asked = asked_by(job);
  std::string more;
  if (growths.memory > 0 && asked.memory_bytes)
    more = size_text(*asked.memory_bytes) + " of memory";
  if (growths.gpu_memory > 0 && asked.gpu_memory_bytes) {
    more += (more.empty() ? "" : " and ") + size_text(*asked.gpu_memory_bytes) + " of GPU memory";
  }
  if (growths.gpu_memory > 0 && asked.share > 0) {
    more += fmt::format("{}{} of a GPU", more.empty() ? "" : " and ", share_text(asked.share));
  }
  return more.empty() ? more : "; its next attempt has " + more;
}

std::vector<std::string> Coordinator::warnings_of(const Job& job) const {
  std::vector<std::string> warnings = planner_->warnings_of(job);
  const LiveAttempt* its = live(job.id);
  if (its != nullptr && !its->mps_trouble.empty()) {
    warnings.push_back(fmt::format(
        "it uses time slicing on its GPU instead of sharing = \"mps\": {}", its->mps_trouble));
  }
  if (parts_.world->sweep_of(job).context.engine == kFake) warnings.emplace_back(kSimulated);
  const bool is_over = is_ended(job.state);
  if (!is_over && !is_on_cluster(job)) {
    std::string less = clamp_words(parts_.world->sweep_of(job).context);
    if (!less.empty()) warnings.push_back(std::move(less));
  }
  return warnings;
}

/// What jobs of this submit do not get of their shell; "": they get all.
std::string Coordinator::clamp_words(const SubmitContext& context) const {
  if (!context.shell || context.engine != "local") return {};
  return clamp_warning(*context.shell, parts_.reach, parts_.is_service);
}

void Coordinator::tell_idle(LaneId id, LaneSnapshot& lane) const {
  const LaneUse::Idle idle = lane_use_.of(id, parts_.clock->now().boot_ns);
  lane.idle_s = static_cast<double>(idle.all_ns) / 1e9;
  if (idle.now_ns) lane.idle_now_s = static_cast<double>(*idle.now_ns) / 1e9;
}

std::vector<LaneSnapshot> Coordinator::gpu_lane_snapshots() const {
  std::vector<LaneSnapshot> lanes = parts_.gpus->lanes();
  for (LaneSnapshot& lane : lanes) tell_idle(parts_.gpus->facts(lane.uuid)->id, lane);
  return lanes;
}

std::vector<LaneSnapshot> Coordinator::lane_snapshots(const Sweep& sweep) const {
  std::vector<LaneSnapshot> out;
  const bool uses_gpus = parts_.gpus->any();
  if (uses_gpus) out = gpu_lane_snapshots();
  const bool own = sweep.context.lanes > 0;
  const int count = own ? static_cast<int>(sweep.context.lanes) : capacity_.cpu_lanes.size;
  std::vector<LaneSnapshot> cpu;
  for (int slot = 0; slot < count; ++slot) {
    const LaneId id{.pool = own ? LaneId::Pool::Sweep : LaneId::Pool::Cpu,
                    .sweep = own ? sweep.id : SweepId{},
                    .slot = slot};
    LaneSnapshot lane{.name = to_string(id), .state = "free"};
    for (const auto& [job, live] : live_) {
      if (live.lane == id) {
        lane.state = live.resists.empty() ? "busy" : "dirty";
        lane.why = live.resists;
        lane.job = job.value;
      }
    }
    tell_idle(id, lane);
    cpu.push_back(std::move(lane));
  }
  out.insert(out.end(), cpu.begin(), cpu.end());
  return out;
}

}  // namespace pergpu
