// Submits, one at a time: planned against the world, stored, and only then taken by the world.
#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

#include "coordinator/attempt_planner.h"
#include "coordinator/coordinator.h"
#include "coordinator/submit_folders.h"
#include "gpu/pool/mps_daemons.h"
#include "os/process/spawn.h"
#include "slurm/cluster.h"
#include "slurm/cluster_fit.h"
#include "spec/templates/start_size.h"
#include "state/earlier_runs.h"
#include "state/readiness.h"
#include "state/simulated_sweep.h"

namespace pergpu {
namespace {

constexpr std::string_view kVisibleDevices = "CUDA_VISIBLE_DEVICES";

/// What the user wrote: without --devices the client sends the variable's value, "-1" for an empty
/// one.
std::string_view source_of_devices(const SubmitContext& context) {
  const std::optional<std::string> value = os::value_in(context.env, kVisibleDevices);
  if (!value) return "--devices";
  return context.devices == (value->empty() ? "-1" : *value) ? kVisibleDevices : "--devices";
}

std::vector<JobId> new_jobs(const SubmitReply& reply, JobId first_new) {
  std::vector<JobId> jobs;
  for (const std::int64_t id : reply.jobs) {
    if (JobId{id} >= first_new) jobs.push_back(JobId{id});
  }
  return jobs;
}

/// Clients have said so, unless they are of an earlier release or another's program.
Result<void> check_starts(const SweepSpec& sweep) {
  for (const StepSpec& step : sweep.steps) {
    std::string why;
    visit_start_sizes(step, sweep.runs, [&](const StartOfRun& start) {
      why = why_too_long(start);
      return why.empty();
    });
    if (!why.empty()) return invalid(fmt::format("step {}: {}", step.name, why));
  }
  return {};
}

}  // namespace

void Coordinator::submit(SweepSpec sweep, SubmitContext context,
                         std::function<void(Result<SubmitReply>)> done) {
  submits_.push_back({std::move(sweep), std::move(context), std::move(done)});
}

void Coordinator::find_root(SweepSpec file, const SubmitContext& context,
                            std::function<void(Result<SweepSpec>)> then) {
  submit_folders_->find_root(std::move(file), context.unique_name, std::move(then));
}

/// The front one's root as it is known; the next submit may be of the same sweep in other words.
void Coordinator::settle_root() {
  submits_.front().has_root = true;
  submitting_ = true;
  const SubmitContext& context = submits_.front().context;
  find_root(submits_.front().sweep, context, [this](Result<SweepSpec> sweep) {
    submitting_ = false;
    if (sweep) {
      submits_.front().sweep = *std::move(sweep);
    } else {
      refuse_submit(std::move(sweep).error());
    }
    run_submits();
  });
}

/// The front one.
void Coordinator::refuse_submit(Error why) {
  const PendingSubmit refused = std::move(submits_.front());
  submits_.erase(submits_.begin());
  refused.done(std::move(why));
}

/// What no plan can fix: a step that this machine can never run.
Result<void> Coordinator::check_fits(const SweepSpec& sweep, const SubmitContext& context) {
  if (context.engine == kSlurm) return check_for_cluster(sweep);
  Sweep probe;
  probe.context.lanes = context.lanes;
  parts_.gpus->fill(capacity_);
  for (const StepSpec& step : sweep.steps) {
    const bool wants_gpu = step.gpus > 0;
    if (wants_gpu && !parts_.gpus->any() && context.lanes == 0) {
      const std::string& trouble = parts_.gpus->trouble();
      return invalid(fmt::format(
          "step {} asks for a GPU, but this machine has none{}; --lanes N runs it on N CPU lanes",
          step.name, trouble.empty() ? "" : " that pergpu can read (" + trouble + ")"));
    }
    Demand demand = demand_of(step, pool_of(probe, step));
    if (!context.devices.empty() && demand.pool == LaneId::Pool::Gpu) {
      Result<std::vector<std::string>> devices =
          gpu::select_gpus(parts_.gpus->last_look(), context.devices, source_of_devices(context));
      if (!devices) return std::move(devices).error();
      if (devices->empty()) {
        return invalid(fmt::format(
            "step {} asks for a GPU, but {} names none; {}", step.name,
            source_of_devices(context) == kVisibleDevices ? "CUDA_VISIBLE_DEVICES of this shell"
                                                          : "--devices",
            source_of_devices(context) == kVisibleDevices ? "unset it, or name GPUs with --devices"
                                                          : "name GPUs, like --devices 0,2"));
      }
      demand.devices = std::move(*devices);
    }
    if (demand.pool == LaneId::Pool::Gpu && demand.sharing == Sharing::Mps) {
      const std::string why = parts_.mps == nullptr ? "MPS isn't available" : parts_.mps->why_not();
      if (!why.empty()) {
        return invalid(fmt::format(
            "step {} shares GPUs by MPS: {}; without `sharing` its jobs use time slicing",
            step.name, why));
      }
    }
    const std::string never = never_fits(demand, capacity_);
    if (!never.empty()) return invalid(fmt::format("step {}: {}", step.name, never));
  }
  return {};
}

/// A job that a cluster has must not begin here, too, nor the other way round.
Result<void> Coordinator::check_place(const SweepSpec& sweep, const SubmitContext& context) const {
  const Sweep* known = parts_.world->sweep(parts_.world->sweep_at(output_root(sweep), sweep.name));
  if (known == nullptr || known->context.engine == context.engine) return {};
  if (known->context.engine != kSlurm && context.engine != kSlurm) return {};
  const std::string rest = known->open == 0 && cluster_
                               ? cluster_->why_not_gone(*known, /*strictly=*/true)
                               : std::string();
  if (!rest.empty()) {
    return invalid(fmt::format("sweep {} has ended here, but {}: submit again when they are gone",
                               sweep.name, rest));
  }
  if (known->open == 0) return {};
  return invalid(
      fmt::format("sweep {} was submitted with --on {} and still has jobs; submit it there, or "
                  "cancel them first (pergpu cancel {})",
                  sweep.name, known->context.engine, sweep.name));
}

Result<SubmitPlan> Coordinator::plan_checked(const SweepSpec& sweep, const SubmitContext& context,
                                             SweepId moved, const LostOutputs& lost) {
  if (Result<void> fits = check_fits(sweep, context); !fits) return std::move(fits).error();
  if (const Sweep* known = known_sweep(*parts_.world, sweep, context, moved)) {
    if (Result<void> may = check_simulation(*parts_.world, *known, context); !may)
      return std::move(may).error();
  }
  if (Result<void> may = check_place(sweep, context); !may) return std::move(may).error();
  if (Result<void> may = check_starts(sweep); !may) return std::move(may).error();
  return plan_submit(*parts_.world, sweep, context, parts_.clock->now(), moved, lost);
}

void Coordinator::look_for_outputs_by(LookForOutputs look) {
  output_survey_ = std::make_unique<OutputSurvey>(OutputSurvey::Parts{.world = parts_.world,
                                                                      .timers = parts_.timers,
                                                                      .clock = parts_.clock,
                                                                      .look = std::move(look)});
}

void Coordinator::survey_outputs(const SweepSpec& file, const SubmitContext& context,
                                 std::function<void(LostOutputs)> done) {
  output_survey_->begin(file, context, std::move(done));
}

void Coordinator::run_submits() {
  if (submitting_ || submits_.empty() || !parts_.gpus->discovered()) return;
  if (!submits_.front().has_root) return settle_root();
  auto archived = archived_for(submits_.front().sweep, submits_.front().context);
  if (!archived.empty()) {
    submitting_ = true;
    return fetch(std::move(archived), [this](Result<void> fetched) {
      submitting_ = false;
      if (!fetched) refuse_submit(std::move(fetched).error());  // else the next turn goes on
    });
  }
  if (!submits_.front().has_looked) return look_for_results();
  if (PendingSubmit& next = submits_.front(); !next.lost) {
    submitting_ = true;
    survey_outputs(next.sweep, next.context, [this](LostOutputs lost) {
      submitting_ = false;
      submits_.front().lost = std::move(lost);
    });
    if (submitting_) return;  // the next turn goes on
  }
  PendingSubmit pending = std::move(submits_.front());
  submits_.erase(submits_.begin());
  recognize_earlier_runs(*parts_.world, pending.context, pending.sweep);

  // The same request again, because its answer was lost: the same answer.
  if (!pending.context.key.empty()) {
    for (const auto& [id, sweep] : parts_.world->sweeps()) {
      const bool is_same =
          sweep.context.key == pending.context.key && sweep.context.add == pending.context.add;
      if (!is_same || parts_.world->is_forgotten(id)) continue;
      pending.done(repeated_reply(sweep, pending.sweep));
      return;
    }
  }
  if (std::string why = why_cleaned_now(pending.sweep, pending.context); !why.empty()) {
    pending.done(invalid(std::move(why)));
    return;
  }
  Remembered remembered =
      with_remembered(*parts_.world, pending.sweep, std::move(pending.context), pending.moved);
  pending.context = std::move(remembered.context);
  Result<SubmitPlan> plan =
      plan_checked(pending.sweep, pending.context, pending.moved, *pending.lost);
  if (plan) plan->reply.remembered = std::move(remembered.said);
  if (!plan) {
    pending.done(std::move(plan).error());
    return;
  }
  if (!pending.note.empty()) plan->reply.warnings.push_back(pending.note);
  if (std::string less = clamp_words(pending.context); !less.empty())
    plan->reply.warnings.push_back(std::move(less));
  plan->rows.push_back(row::Environment{plan->sweep, std::move(pending.context.env)});

  submitting_ = true;
  if (!plan->is_new) frozen_ = plan->sweep;
  const JobId first_new = parts_.world->next_job_id();
  const Sweep* before = known_sweep(*parts_.world, pending.sweep, pending.context, pending.moved);
  const bool is_replaced =
      before != nullptr && is_superseded(*parts_.world, *before, pending.context);
  const SweepId superseded = is_replaced ? before->id : SweepId{};
  Batch rows = std::move(plan->rows);
  const Sweep* known = parts_.world->sweep(plan->sweep);
  // An executor of another program that goes on with a sweep; not one whose calls wait.
  const bool takes_root = !plan->adds || known == nullptr || known->open == 0;
  parts_.journal->commit_first(
      std::move(rows), [this, sweep = plan->sweep, superseded, adds = plan->adds, takes_root,
                        first_new, reply = std::move(plan->reply),
                        done = std::move(pending.done)](const Result<void>& stored) mutable {
        submitting_ = false;
        frozen_ = {};
        if (stored) {
          rest_.insert(sweep);  // nothing of it may have to run
          if (superseded) breaker_.forget(superseded);
          planner_->forget(sweep);
          if (takes_root) planner_->forget_root(*parts_.world->sweep(sweep));
          // What is only added is no word of a person on what has failed before.
          const bool asks_again = !adds || reply.requeued > 0;
          asks_again ? breaker_.reset(sweep) : breaker_.on_added(new_jobs(reply, first_new));
          declare(*parts_.world->sweep(sweep));
          ++changes_;
          if (cluster_ && parts_.world->sweep(sweep)->context.engine == kSlurm)
            cluster_->arrive(sweep);
          adds ? refresh_added(reply) : refresh_sweep(sweep);
        }
        // What would have happened to its jobs while they were frozen.
        for (const JobId missed : std::exchange(missed_, {})) refresh(missed);
        if (stored) {
          done(std::move(reply));
        } else {
          done(Error{stored.error().kind, stored.error().os_errno,
                     "couldn't store the submit, nothing was changed: " + stored.error().message});
        }
        for (const EngineEvent& e : std::exchange(deferred_, {})) on_engine(e);
      });
}

/// A new sweep, in whose folder results of others may lie.
bool Coordinator::may_find_results(const SweepSpec& file, const SubmitContext& context) const {
  const World& world = *parts_.world;
  const SweepId same = world.sweep_at(output_root(file), file.name);
  const Sweep* known = world.sweep(same);
  const bool is_known = same && (known == nullptr || !is_superseded(world, *known, context));
  const bool may_run_again = context.rerun || context.add || context.unique_name;
  const bool is_found_anyway = context.engine == kSlurm;  // its folders show what has ended
  return !is_known && !may_run_again && !is_found_anyway;
}

/// What they are is looked at before the sweep is planned.
void Coordinator::look_for_results() {
  PendingSubmit& front = submits_.front();
  front.has_looked = true;
  if (!may_find_results(front.sweep, front.context)) return run_submits();
  submitting_ = true;
  submit_folders_->judge(output_root(front.sweep), front.sweep.name, [this](FoundVerdict verdict) {
    submitting_ = false;
    if (verdict.why.empty()) {
      submits_.front().moved = verdict.moved;
      submits_.front().note = std::move(verdict.note);
    } else {
      refuse_submit(invalid(std::move(verdict.why)));
    }
    run_submits();
  });
}

void Coordinator::refresh_sweep(SweepId id) {
  for (const Step& step : parts_.world->sweep(id)->steps) {
    for (const JobId job : step.current) {
      if (job) refresh_submitted(job);
    }
  }
}

/// The other jobs of the sweep are as they were, but for those that need a job of a once-step which
/// was queued again.
void Coordinator::refresh_added(const SubmitReply& reply) {
  for (const std::int64_t job : reply.jobs) refresh_submitted(JobId{job});
  if (reply.requeued == 0) return;
  for (const std::int64_t id : reply.jobs) {
    const Job& job = *parts_.world->job(JobId{id});
    if (job.run >= 0) continue;
    visit_dependents(*parts_.world, job, [this](JobId dependent) { refresh(dependent); });
  }
}

void Coordinator::refresh_submitted(JobId job) {
  touch(job);
  refresh(job);
  if (const JobId old = parts_.world->replaces(job)) {
    touch(old);
    refresh(old);
  }
}

}  // namespace pergpu
