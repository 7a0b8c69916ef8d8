// The life of an attempt as its engine reports it: started, ready, asked to stop, ended.  The end
// is one event that carries what follows, in one transaction with the lane's next intent.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "coordinator/attempt_planner.h"
#include "coordinator/coordinator.h"
#include "gpu/pool/mps_daemons.h"
#include "job/failures.h"
#include "job/not_started.h"
#include "job/retry.h"
#include "job/text.h"
#include "os/fs/written_file.h"
#include "spec/templates/run_parameters.h"

namespace pergpu {
namespace {

constexpr std::int64_t kClusterPatience = 2 * kSecond;
constexpr std::int64_t kNeighbourly = 5 * kSecond;  // how old what a shared GPU reports may be

/// The end of a failed job's log: its last words distinguish a mistake from an accident.
std::string log_tail(const std::string& path) {
  Result<std::string> tail = os::read_written_tail(path, os::Writer::Keeper, kLogTailBytes);
  return tail ? std::move(*tail) : std::string();
}

/// 0: not known.  An end may have been seen before its start was recorded.
std::int64_t duration_of(const Attempt& attempt, const engine_event::Exited& exited) {
  if (attempt.started_at.boot_ns == 0) return 0;
  return std::max<std::int64_t>(1, exited.exited_at.boot_ns - attempt.started_at.boot_ns);
}

/// By the times alone, since it may have been sent by the coordinator before this one.
int early_signal(const StepSpec& step, std::int64_t duration_ns) {
  if (!step.signal || !step.timeout) return 0;
  const std::int64_t due = std::chrono::nanoseconds(*step.timeout - step.signal->ahead).count();
  return duration_ns >= due ? step.signal->number : 0;
}

}  // namespace

void Coordinator::on_engine(const EngineEvent& e) {
  const AttemptId id = std::visit([](const auto& event) { return event.id; }, e);
  auto it = live_.find(id.job);
  if (it == live_.end() || it->second.id != id) {
    const bool has_ended = std::holds_alternative<engine_event::Exited>(e) ||
                           std::holds_alternative<engine_event::SpawnFailed>(e);
    if (!has_ended) return;
    if (auto archived = parts_.world->archived_with(id.job); !archived.empty()) {
      return fetch(std::move(archived), [this, e, id](const Result<void>& fetched) {
        fetched ? on_engine(e) : parts_.local->acknowledge(id, {}, {});
      });
    }
    return acknowledge_again(id);
  }
  if (is_frozen(*parts_.world->job(id.job))) return defer(e);
  LiveAttempt& live = it->second;
  // What was reported of its GPUs since they were looked at counts, too.
  if (std::exchange(live.deferred, false)) live.faults.reset();
  if (live.examining) return;  // it has ended; nothing else counts any more
  const Job& job = *parts_.world->job(id.job);
  std::visit(Overloaded{
                 [&](const engine_event::Started& started) {
                   live.sent = true;
                   live.memory_held = started.memory_held;
                   live.cpu_held = started.cpu_held;
                   for (std::size_t i = 0; i < started.leases.size() && i < live.gpus.size(); ++i) {
                     parts_.gpus->adopt_lease(live.gpus[i], *started.leases[i]);
                   }
                   const bool is_new = job.last->pid == 0;
                   if (is_new) {
                     record(id.job, event::Started{started.pid, started.start_ticks});
                   }
                   // Without a keeper it is lost, however much of its time has passed.
                   if (started.has_keeper) arm_timers(live);
                   observe(live, started, is_new);
                   watch_gpu_memory();
                   if (job.state == JobState::Stopping && started.has_keeper) resume_stop(live);
                 },
                 [&](const engine_event::SpawnFailed& failed) {
                   end_attempt(id.job,
                               Evidence{.spawn_failure = SpawnFailure{failed.phase, failed.os_errno,
                                                                      failed.object},
                                        .stop = job.last->stop,
                                        .stop_reason = job.last->stop_reason});
                 },
                 [&](const engine_event::Exited& exited) { on_exit(live, exited); },
                 [&](const engine_event::Lost& lost) { on_lost(live, lost); },
                 [&](const engine_event::MemoryExceeded& exceeded) {
                   live.memory_bytes = exceeded.bytes;
                   const std::uint64_t limit = live.demand.memory_bytes.value_or(exceeded.bytes);
                   stop_attempt(job, StopCause::Memory,
                                fmt::format("memory {} exceeded its limit of {}",
                                            size_text(exceeded.bytes), size_text(limit)),
                                StopHow::Kill);
                 },
                 [&](const engine_event::Notified& notified) {
                   const std::string& line = notified.line;
                   if (line.starts_with("READY=1")) ready(live);
                   if (line.starts_with("STATUS=")) live.status = line.substr(7);
                   if (line.starts_with("RESISTS=")) resist(live, line.substr(8));
                   if (line.starts_with("PROGRESS=")) live.progress = line.substr(9);
                   touch(id.job);
                 },
                 [&](const engine_event::Quiet& quiet) { on_quiet(live, quiet); },
             },
             e);
}

/// The coordinator before recorded this end and was killed before its keeper knew; or this one did,
/// and gets it once more before it is stored.
void Coordinator::acknowledge_again(AttemptId id) {
  const Job* job = parts_.world->job(id.job);
  const bool is_last =
      job != nullptr && job->last && job->last->number == id.number && job->last->outcome;
  Engine* engine = is_last ? &engine_of(parts_.world->sweep_of(*job)) : parts_.local;
  const bool had_folder = is_last && !has_not_begun(*job->last->outcome);
  std::string path = had_folder ? parts_.world->out_of(*job) + "/attempt.json" : std::string();
  std::string record = is_last ? to_json_text(*planner_->final_record(*job)) : std::string();
  parts_.journal->then([id, engine, path = std::move(path), record = std::move(record)] {
    engine->acknowledge(id, path, record);
  });
}

void Coordinator::observe(const LiveAttempt& live, const engine_event::Started& started,
                          bool is_new) {
  if (parts_.telemetry == nullptr || live.engine != parts_.local) return;
  parts_.telemetry->begin(
      {.id = live.id,
       .root = {started.pid, started.start_ticks},
       .gpus = live.gpus,
       .shares_gpu = live.had_company,
       .started_boot_ns = parts_.world->job(live.id.job)->last->started_at.boot_ns,
       .is_new = is_new});
}

/// Until the submit is stored: the journal must hold the rows in the order in which the world took
/// them.
void Coordinator::defer(const EngineEvent& e) {
  deferred_.push_back(e);
  const bool is_end = std::holds_alternative<engine_event::Exited>(e) ||
                      std::holds_alternative<engine_event::SpawnFailed>(e) ||
                      std::holds_alternative<engine_event::Lost>(e);
  const AttemptId id = std::visit([](const auto& event) { return event.id; }, e);
  if (is_end) live_.at(id.job).deferred = true;
}

/// What failed on a GPU is judged when that GPU was looked at: until then the keeper keeps the
/// exit, and a coordinator that comes after this one learns it again.
void Coordinator::on_exit(LiveAttempt& live, const engine_event::Exited& exited) {
  const Job& job = *parts_.world->job(live.id.job);
  const StepSpec& step = parts_.world->step_of(job).spec;
  const bool failed = exited.exit_code != 0;
  if (failed && !parts_.node.empty() && !job.last->stop && !live.outlived) {
    return await_cluster(live, exited);
  }
  const bool may_be_its_gpu = job.last->stop ? may_be_the_machine(*job.last->stop) : failed;
  if (may_be_its_gpu && !live.gpus.empty() && !live.faults) return examine(live, exited);
  const gpu::AttemptFaults faults = live.faults.value_or(gpu::AttemptFaults{});
  end_attempt(
      job.id,
      Evidence{
          .exit_code = exited.exit_code,
          .signal = exited.signal,
          .missing_output = exited.missing_output,
          .missing_why = exited.missing_why,
          .stop = job.last->stop,
          .stop_reason = job.last->stop_reason,
          .duration_ns = duration_of(*job.last, exited),
          .timeout_ns = step.timeout ? std::chrono::nanoseconds(*step.timeout).count() : 0,
          .early_signal = early_signal(step, duration_of(*job.last, exited)),
          .memory_bytes = live.memory_bytes,
          .memory_limit_bytes = live.demand.memory_bytes.value_or(0),
          .oom_kills = exited.oom_kills,
          .oom_at_limit = exited.oom_at_limit,
          .gpu_fault = faults.hardware,
          .driver_fault = faults.driver,
          .gpu_notes = faults.notes,
          .shares_mps = job.last->placement.mps && live.had_company && live.mps_trouble.empty(),
          .asks_for_gpus = step.gpus > 0,
          .log_tail = failed ? log_tail(parts_.world->out_of(job) + "/log.txt") : std::string(),
          .rules = step.failures,
          .peak_memory_bytes = exited.peak_memory_bytes,
          .cpu_ns = exited.cpu_ns},
      exited.left_running);
}

/// What hung on a GPU and was stopped for it is judged like what exited, although its status is not
/// known.
void Coordinator::on_lost(LiveAttempt& live, const engine_event::Lost& lost) {
  const Attempt& attempt = *parts_.world->job(live.id.job)->last;
  const bool may_be_its_gpu = attempt.stop && may_be_the_machine(*attempt.stop);
  if (may_be_its_gpu && !live.gpus.empty() && !live.faults) return examine(live, lost);
  const gpu::AttemptFaults faults = live.faults.value_or(gpu::AttemptFaults{});
  end_attempt(live.id.job, Evidence{.lost = true,
                                    .proven_gone = lost.proven_gone,
                                    .lost_why = lost.why,
                                    .stop = attempt.stop,
                                    .stop_reason = attempt.stop_reason,
                                    .gpu_fault = faults.hardware,
                                    .driver_fault = faults.driver,
                                    .gpu_notes = faults.notes});
}

/// On a node: the signal that ended it may be on its way to this process, too.  Then its allocation
/// ends, and it has not failed.
void Coordinator::await_cluster(LiveAttempt& live, const EngineEvent& end) {
  live.outlived = true;
  live.examining = true;
  parts_.timers->at(parts_.clock->now().boot_ns + kClusterPatience, [this, id = live.id, end] {
    auto it = live_.find(id.job);
    if (it == live_.end() || it->second.id != id) return;
    it->second.examining = false;
    on_engine(end);
  });
}

/// Its GPUs are looked at; then `end` is taken up again.
void Coordinator::examine(LiveAttempt& live, const EngineEvent& end) {
  live.examining = true;
  parts_.gpus->examine([this, id = live.id, end](const GpuLook& look) {
    auto it = live_.find(id.job);
    if (it == live_.end() || it->second.id != id) return;
    const Attempt& attempt = *parts_.world->job(id.job)->last;
    std::vector<std::pair<std::string, std::string>> gpus;
    for (const std::string& uuid : it->second.gpus) {
      const gpu::GpuLane* facts = parts_.gpus->facts(uuid);
      gpus.emplace_back(uuid, facts == nullptr ? uuid : to_string(facts->id));
    }
    // A GPU that broke is broken for all. Of the errors of programs its neighbors had theirs, and
    // looks come every second: an older one hasn't ended this attempt.
    const std::int64_t notes_from =
        it->second.had_company ? parts_.clock->now().boot_ns - kNeighbourly : 0;
    it->second.faults = gpu_care_.faults(look, gpus, attempt.starting_at.boot_ns, notes_from);
    it->second.examining = false;
    on_engine(end);
  });
}

void Coordinator::ready(LiveAttempt& live) {
  if (!live.starting_up) return;
  live.starting_up = false;
  capacity_.started_up(live.key);
  if (live.ready_timer != 0) parts_.timers->cancel(std::exchange(live.ready_timer, 0));
}

/// What does not go although it was killed: the job has not ended, and its lanes stay closed.
void Coordinator::resist(LiveAttempt& live, std::string words) {
  live.resists = std::move(words);
  for (const std::string& uuid : live.gpus) parts_.gpus->tell(uuid, live.id.job, live.resists);
  parts_.gpus->fill(capacity_);
}

Next Coordinator::what_follows(const Job& job, const Outcome& outcome) const {
  const std::int64_t began_ns = job.last->started_at.wall_ns;
  const std::int64_t ran_ns = began_ns == 0 ? 0 : parts_.clock->now().wall_ns - began_ns;
  Next next = decide_next(job, parts_.world->step_of(job).spec, outcome, ran_ns);
  const JobId newer = parts_.world->replaced_by(job.id);
  if (!newer || next.kind == Next::Kind::Final) return next;
  // Queued jobs are cancelled when a newer version comes, and this one came while it ran.
  return {.kind = Next::Kind::Final,
          .state = JobState::Cancelled,
          .reason = fmt::format("{}; not started again: replaced by job {}", outcome.reason,
                                newer.value)};
}

/// The GPUs of its last attempt, if that failed.
std::vector<std::string> Coordinator::failed_on(JobId id) const {
  const Job& job = *parts_.world->job(id);
  const bool has_failed = job.last && job.last->outcome &&
                          job.last->outcome->cls != OutcomeClass::Ok &&
                          !has_not_begun(*job.last->outcome);
  return has_failed ? job.last->placement.gpus : std::vector<std::string>{};
}

/// The values of its run as strings.
std::vector<std::string> Coordinator::values_of(const Job& job) const {
  std::vector<std::string> values;
  const std::optional<RunSpec> run = parts_.world->parameters_of(job);
  const Result<RunParameters> parameters = RunParameters::parse(run.value_or(RunSpec{}));
  if (!parameters) return values;
  for (const auto& [name, value] : parameters->all()) values.push_back(value);
  return values;
}

/// The outcome and what follows: one event, in one transaction with the lane's next intent.
void Coordinator::end_attempt(JobId id, const Evidence& evidence, const std::string& left_running) {
  auto node = live_.extract(id);
  LiveAttempt& live = node.mapped();
  if (!live.sent) live.engine->unassign(live.lane);
  const Job& job = *parts_.world->job(id);
  Outcome outcome = classify(evidence);
  outcome.left_running = left_running;
  if (outcome.cls == OutcomeClass::Ok) outcome.reason = left_running;
  if (outcome.cls == OutcomeClass::UserError) {
    outcome.mistake = mistake_without(values_of(job), outcome);
  }
  CpuShare share;
  if (parts_.telemetry != nullptr) {
    if (const CpuShare* its = parts_.telemetry->share(live.id)) share = *its;
    outcome.usage = parts_.telemetry->end(live.id);
  }
  const Next next = what_follows(job, outcome);
  // One incident ends several jobs that share a GPU: it says nothing of job after job.
  if (!live.had_company) gpu_care_.attempt_ended(live.gpus, id, live.key, outcome.cls);
  const bool is_in_use = is_folder_in_use(outcome);
  const bool lacks_disk = is_storage_failure(outcome) && evidence.spawn_failure;
  const bool had_folder = !is_in_use && !lacks_disk;
  record(id, event::Ended{std::move(outcome), next});
  if (lacks_disk) {
    storage_waits_->add(job, *evidence.spawn_failure);
  } else if (!is_in_use) {
    folder_waits_->forget(id);
  } else if (job.state == JobState::Queued) {
    folder_waits_->add(id, parts_.world->out_of(job), evidence.spawn_failure->object);
  }
  learn(job, live, share);
  vacate(live, !evidence.lost || evidence.proven_gone);
  const bool is_told_of = !parts_.world->sweep_of(job).spec.notify.empty();
  if (job.state == JobState::Done && !is_told_of) drop_environment(job.sweep);
  if (!live.record_path.empty()) {
    // Taken now, because a next attempt may follow at once; rendered and sent in the lull.
    parts_.journal->then([this, attempt = live.id, engine = live.engine,
                          path = had_folder ? live.record_path : std::string(),
                          record = planner_->final_record(job)] {
      farewells_.push_back([attempt, engine, path, record] {
        engine->acknowledge(attempt, path, to_json_text(*record));
      });
      await_lull();
    });
  }
  refresh(id);
  dependents_of(id);
}

/// What a real attempt that was done took: of its processes what the keeper saw, and its GPUs
/// without what they need for themselves.
void Coordinator::learn(const Job& job, LiveAttempt& live, const CpuShare& share) {
  const Attempt& attempt = *job.last;
  const bool was_done = attempt.outcome->cls == OutcomeClass::Ok;
  if (!was_done || live.engine != parts_.local || attempt.started_at.boot_ns == 0) return;
  UsageRecord record{
      .duration_s =
          static_cast<double>(attempt.ended_at.boot_ns - attempt.started_at.boot_ns) / 1e9};
  record.cores = share.cores_wanted();
  record.alone_s = share.alone_s(record.duration_s);
  if (attempt.outcome->peak_memory_bytes > 0) {
    record.memory_bytes = attempt.outcome->peak_memory_bytes;
  }
  if (const std::optional<UsageSummary>& usage = attempt.outcome->usage) {
    if (const auto& memory = (*usage)[Measure::Proportional]) {
      record.memory_bytes =
          std::max(record.memory_bytes.value_or(0), static_cast<std::uint64_t>(memory->most));
    }
    const auto& memory = (*usage)[Measure::GpuMemory];
    if (memory && live.demand.outsiders == Outsiders::Avoid) {  // else it is others' memory, too
      std::uint64_t idle = 0;
      if (!live.had_company) {  // else it counts its own processes
        for (const std::string& uuid : live.gpus) idle += parts_.gpus->idle_bytes(uuid);
      }
      const auto most = static_cast<std::uint64_t>(memory->most);
      record.gpu_memory_bytes = most - std::min(idle, most);
    }
  }
  if (live.demand.is_auto) learn_need(live, share);
  if (const auto run = parts_.world->parameters_of(job)) record.parameters = marks_of(*run);
  learnt_.add(parts_.world->step_of(job).spec, std::move(record));
}

/// When every job of the sweep is done none can start any more, and its environment goes; that of a
/// sweep with [notify] when no notification is pending, either.
void Coordinator::drop_environment(SweepId id) {
  if (frozen_ == id) return;  // a new one is on its way to the disk
  const std::vector<Step>& steps = parts_.world->sweep(id)->steps;
  for (const Step& step : steps) {
    if (step.done != step.total) return;  // counted: a sweep may have a million jobs
  }
  for (const Step& step : steps) {
    for (const JobId job : step.current) {  // those of rows that are gone from the file, too
      if (job && parts_.world->job(job)->state != JobState::Done) return;
    }
  }
  parts_.journal->record(row::Environment{id, {}});
  planner_->forget(id);
}

void Coordinator::vacate(LiveAttempt& live, bool gone) {
  for (const Timers::Id timer : {live.timeout_timer, live.ready_timer, live.signal_timer,
                                 live.term_timer, live.disconnect_timer}) {
    if (timer != 0) parts_.timers->cancel(timer);
  }
  capacity_.now_ns = parts_.clock->now().boot_ns;
  capacity_.vacate(live.key, live.demand, live.lane, live.gpus, live.starting_up, false);
  for (const LaneId& lane : pergpu::lanes_of(parts_.world->job(live.id.job)->last->placement)) {
    lane_use_.vacate(lane, capacity_.now_ns);
  }
  for (const std::string& uuid : live.gpus) {
    if (parts_.mps != nullptr) parts_.mps->release(uuid, live.id);
    parts_.gpus->vacate(uuid, live.id.job, gone);
  }
  parts_.gpus->fill(capacity_);
}

}  // namespace pergpu
