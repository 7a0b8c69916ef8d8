// Runs are matched by their canonical JSON, jobs by their identity.  What is done stays done; what
// is queued or live goes on; what ended otherwise is queued again; what is no longer in the file
// and has not started is cancelled.  With `add` what the file does not name stays as it is, and is
// not even looked at but for whether it is listed.
#include "coordinator/submit.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "coordinator/added_rows.h"
#include "coordinator/earlier_success.h"
#include "spec/identity.h"
#include "spec/placeholders.h"
#include "spec/run_name.h"
#include "spec/wire.h"

namespace pergpu {
namespace {

/// A name that no sweep under `root` has yet: "true", "true-2", …
std::string unique_name(const World& world, const std::string& root, const std::string& name) {
  std::string candidate = name;
  for (int n = 2; world.sweep_at(root, candidate); ++n) candidate = fmt::format("{}-{}", name, n);
  return candidate;
}

/// Steps in an order in which each comes after those it needs.  The file was checked for cycles.
std::vector<std::size_t> needs_first(const std::vector<StepSpec>& steps) {
  std::vector<std::size_t> order;
  std::vector<bool> placed(steps.size(), false);
  while (order.size() < steps.size()) {
    const std::size_t before = order.size();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const bool free =
          !placed[i] &&
          std::all_of(steps[i].needs.begin(), steps[i].needs.end(), [&](const Need& need) {
            return placed[static_cast<std::size_t>(need.step)];
          });
      if (free) {
        placed[i] = true;
        order.push_back(i);
      }
    }
    if (order.size() == before) break;
  }
  return order;
}

class Planner {
 public:
  Planner(const World& world, const SweepSpec& sweep, const SubmitContext& context, Instant now,
          SweepId moved)
      : world_(world), file_(sweep), context_(context), now_(now), moved_(moved) {}

  Result<SubmitPlan> plan();

 private:
  void plan_runs();
  void plan_step(std::size_t index);
  void plan_job(std::size_t step, std::int32_t run, const JobIdentity& identity);
  void drop_unlisted();
  void remember_successes();
  std::size_t most_rows() const;
  void event(JobId job, JobEvent e) {
    out_.rows.push_back(row::Event{.job = job, .event = std::move(e), .at = now_});
  }

  const World& world_;
  const SweepSpec& file_;
  const SubmitContext& context_;
  Instant now_;
  SweepId moved_;
  const Sweep* known_ = nullptr;
  SubmitPlan out_;
  JobId next_job_;
  std::vector<std::string> columns_;
  std::vector<std::int32_t> run_index_;  // of file row i
  std::vector<bool> listed_;             // by run index
  // identities_[step][i]: of file row i, or the one job of a once-step
  std::vector<std::vector<JobIdentity>> identities_;
};

void Planner::plan_runs() {
  std::int32_t next = known_ == nullptr ? 0 : static_cast<std::int32_t>(known_->runs.size());
  listed_.assign(static_cast<std::size_t>(next), false);
  if (out_.adds) {
    std::transform(known_->runs.begin(), known_->runs.end(), listed_.begin(),
                   [](const Run& run) { return run.listed; });
  }
  const auto number_of = [this](const RunSpec& run) {
    return known_ == nullptr ? std::nullopt : known_->run_index.find(known_->runs, run.json);
  };
  const std::int64_t fresh =
      std::ranges::count_if(file_.runs, [&](const RunSpec& run) { return !number_of(run); });
  const std::int64_t count = next + fresh;
  for (const RunSpec& run : file_.runs) {
    if (const std::optional<std::int32_t> known = number_of(run)) {
      run_index_.push_back(*known);
      listed_[static_cast<std::size_t>(*known)] = true;
      continue;
    }
    out_.rows.push_back(row::Run{.sweep = out_.sweep,
                                 .index = next,
                                 .folder = run_folder_name(run, next, count, columns_),
                                 .json = run.json,
                                 .texts = run.texts});
    run_index_.push_back(next++);
    listed_.push_back(true);
  }
}

void Planner::plan_job(std::size_t step, std::int32_t run, const JobIdentity& identity) {
  JobId old;
  if (known_ != nullptr) {
    if (std::optional<int> slot = known_->slot_of(file_.steps[step].name)) {
      old = World::current(*known_, *slot, run);
    }
  }
  const Job* job = world_.job(old);
  if (job == nullptr || world_.identity(old) != identity) {
    const JobId id = next_job_;
    ++next_job_.value;
    if (job != nullptr && (job->state == JobState::Queued || job->state == JobState::Held)) {
      event(old, event::Cancelled{
                     fmt::format("replaced by job {}: its definition has changed", id.value)});
    }
    out_.rows.push_back(row::NewJob{.id = id,
                                    .sweep = out_.sweep,
                                    .run = run,
                                    .step = static_cast<std::int16_t>(step),
                                    .step_name = file_.steps[step].name,
                                    .identity = identity,
                                    .replaces = old,
                                    .at = now_});
    out_.reply.jobs.push_back(id.value);
    ++out_.reply.fresh;
    return;
  }
  out_.reply.jobs.push_back(old.value);
  const bool ended = is_ended(job->state);
  const bool again = job->state == JobState::Done            ? context_.rerun
                     : ended || job->state == JobState::Held ? !context_.only_new
                                                             : false;
  if (again) {
    event(old, event::Requeued{job->state == JobState::Done ? "run again (--rerun)"
                                                            : "submitted again"});
    ++out_.reply.requeued;
  } else {
    ++out_.reply.kept;
  }
}

void Planner::plan_step(std::size_t index) {
  const StepSpec& step = file_.steps[index];
  std::vector<JobIdentity>& mine = identities_[index];
  std::optional<JobIdentity> all_runs;
  if (uses_runs(step)) all_runs = identity_of_runs(file_.runs);

  // What spans all runs is combined once, not once per job.
  std::vector<JobIdentity> shared;
  std::vector<std::size_t> same_run;
  for (const Need& need : step.needs) {
    const std::size_t other = static_cast<std::size_t>(need.step);
    if (file_.steps[other].once) {
      shared.push_back(identities_[other].front());
    } else if (need.scope == Need::Scope::SameRun && !step.once) {
      same_run.push_back(other);
    } else {
      shared.push_back(combined_identity(identities_[other]));
    }
  }
  if (step.once) {
    mine.push_back(job_identity(step, nullptr, shared, all_runs ? &*all_runs : nullptr));
    plan_job(index, -1, mine.front());
    return;
  }
  mine.reserve(file_.runs.size());
  for (std::size_t i = 0; i < file_.runs.size(); ++i) {
    std::vector<JobIdentity> needs = shared;
    for (std::size_t other : same_run) needs.push_back(identities_[other][i]);
    mine.push_back(
        job_identity(step, &file_.runs[i], std::move(needs), all_runs ? &*all_runs : nullptr));
    plan_job(index, run_index_[i], mine.back());
  }
}

void Planner::drop_unlisted() {
  if (known_ == nullptr || out_.adds) return;
  for (const Step& step : known_->steps) {
    const bool in_file = std::any_of(file_.steps.begin(), file_.steps.end(),
                                     [&](const StepSpec& s) { return s.name == step.spec.name; });
    for (JobId id : step.current) {
      const Job* job = world_.job(id);
      if (job == nullptr) continue;
      const bool listed = in_file && (job->run < 0 || listed_[static_cast<std::size_t>(job->run)]);
      if (listed || (job->state != JobState::Queued && job->state != JobState::Held)) continue;
      event(id, event::Cancelled{"no longer in the file"});
      ++out_.reply.dropped;
    }
  }
}

/// What is done may be run again, or belong to a row that is gone: that the command works is known.
void Planner::remember_successes() {
  if (known_ == nullptr || out_.adds) return;
  for (const StepSpec& step : file_.steps) {
    const std::optional<int> slot = known_->slot_of(step.name);
    if (!slot) continue;
    const StepKey key{known_->id, static_cast<std::int16_t>(*slot)};
    if (auto fact = remembered_success(world_, key, step)) out_.rows.push_back(*std::move(fact));
  }
}

/// Of a sweep that nothing is known of, with the environment that is stored with it.
std::size_t Planner::most_rows() const {
  std::size_t rows = 2 + file_.runs.size() + file_.limits.size();
  for (const StepSpec& step : file_.steps) rows += step.once ? 1 : file_.runs.size();
  return rows;
}

Result<SubmitPlan> Planner::plan() {
  const std::string root = output_root(file_);
  SweepSpec spec = file_;
  spec.runs.clear();
  if (context_.unique_name) spec.name = unique_name(world_, root, spec.name);
  known_ = world_.sweep(moved_ ? moved_ : world_.sweep_at(root, spec.name));
  out_.is_new = known_ == nullptr;
  out_.adds = context_.add && known_ != nullptr;
  if (context_.add) {
    Result<void> may = known_ == nullptr ? check_growth(file_) : check_growth(file_, *known_);
    if (!may) return std::move(may).error();
  }
  if (out_.adds) spec.columns = columns_with(*known_, file_);
  columns_ = spec.columns;
  out_.sweep = known_ == nullptr ? world_.next_sweep_id() : known_->id;
  next_job_ = world_.next_job_id();
  identities_.resize(file_.steps.size());

  if (out_.is_new) out_.rows.reserve(most_rows());
  out_.rows.push_back(row::Sweep{});  // filled in below: it must come first
  plan_runs();
  std::vector<std::int32_t> gone;
  for (std::size_t i = 0; i < listed_.size(); ++i) {
    if (!listed_[i]) gone.push_back(static_cast<std::int32_t>(i));
  }
  out_.rows.front() = row::Sweep{.id = out_.sweep,
                                 .root = root,
                                 .name = spec.name,
                                 .spec = to_wire(spec),
                                 .submit = to_text({.context = context_, .unlisted_runs = gone}),
                                 .at = now_};
  for (std::size_t step : needs_first(file_.steps)) plan_step(step);
  drop_unlisted();
  remember_successes();
  for (const auto& [name, value] : file_.limits) {
    auto it = world_.limits().find(name);
    if (it != world_.limits().end() && it->second != value) {
      out_.reply.warnings.push_back(fmt::format(
          "limit {} was {} and is now {}, for all your sweeps", name, it->second, value));
    }
    out_.rows.push_back(row::Limit{.name = name, .value = value});
  }
  out_.reply.sweep = spec.name;
  out_.reply.sweep_id = out_.sweep.value;
  std::sort(out_.reply.jobs.begin(), out_.reply.jobs.end());
  return std::move(out_);
}

}  // namespace

std::string output_root(const SweepSpec& sweep) {
  std::string out = sweep.out.empty() ? "runs" : sweep.out;
  if (out.front() != '/') out = sweep.folder + "/" + out;
  while (out.size() > 1 && out.ends_with('/')) out.pop_back();  // `results/` is no other folder
  return out;
}

Result<SubmitPlan> plan_submit(const World& world, const SweepSpec& sweep,
                               const SubmitContext& context, Instant now, SweepId moved) {
  return Planner(world, sweep, context, now, moved).plan();
}

SubmitReply repeated_reply(const Sweep& sweep, const SweepSpec& file) {
  SubmitReply reply{.sweep = sweep.name, .sweep_id = sweep.id.value};
  const auto add = [&](int slot, std::int32_t run) {
    if (const JobId job = World::current(sweep, slot, run)) reply.jobs.push_back(job.value);
  };
  for (const StepSpec& step : file.steps) {
    const std::optional<int> slot = sweep.slot_of(step.name);
    if (!slot) continue;
    if (step.once) {
      add(*slot, -1);
      continue;
    }
    for (const RunSpec& run : file.runs) {
      const std::optional<std::int32_t> known = sweep.run_index.find(sweep.runs, run.json);
      if (known) add(*slot, *known);
    }
  }
  std::sort(reply.jobs.begin(), reply.jobs.end());
  reply.kept = static_cast<std::int64_t>(reply.jobs.size());
  return reply;
}

}  // namespace pergpu
