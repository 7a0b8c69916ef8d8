// Runs are matched by their canonical JSON, jobs by their identity.  What is done stays done; what
// is queued or live goes on; what ended otherwise is queued again; what is no longer in the file
// and has not started is cancelled.  With `add` what the file does not name stays as it is, and is
// not even looked at but for whether it is listed.  With `overrides` (-p) the file is not the whole
// sweep either: its rows are added where that can be, and nothing that waits or runs is dropped.
#include "state/submit.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "plural.h"
#include "spec/sweep/identity.h"
#include "spec/sweep/wire.h"
#include "spec/templates/placeholders.h"
#include "spec/templates/run_name.h"
#include "state/added_rows.h"
#include "state/earlier_success.h"
#include "state/selector.h"
#include "state/simulated_sweep.h"

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
          SweepId moved, const LostOutputs& lost)
      : world_(world), file_(sweep), context_(context), now_(now), moved_(moved), lost_(lost) {}

  Result<SubmitPlan> plan();

 private:
  void plan_runs();
  void plan_step(std::size_t index);
  bool plan_job(std::size_t step, std::int32_t run, const JobIdentity& identity,
                bool is_need_remade);
  std::string why_again(const Job& job, bool is_need_remade) const;
  void tell_lost();
  void note_older(JobId current);
  void drop_unlisted();
  void remember_successes();
  void tell_older();
  void supersede();
  void tell_other_results(const std::string& root, const std::string& name);
  std::size_t most_rows() const;
  Result<bool> adds();
  void count_others();
  void event(JobId job, JobEvent e) {
    out_.rows.push_back(row::Event{.job = job, .event = std::move(e), .at = now_});
  }

  const World& world_;
  const SweepSpec& file_;
  const SubmitContext& context_;
  Instant now_;
  SweepId moved_;
  const LostOutputs& lost_;
  const Sweep* known_ = nullptr;
  std::optional<row::Meta> superseded_ = {};  // what forgets the simulated one
  SubmitPlan out_;
  JobId next_job_;
  std::vector<std::string> columns_;
  std::int64_t named_ = 0;               // jobs of the sweep so far that the file names
  std::vector<std::int32_t> run_index_;  // of file row i
  std::vector<bool> listed_;             // by run index
  // identities_[step][i]: of file row i, or the one job of a once-step
  std::vector<std::vector<JobIdentity>> identities_;
  // remade_[step][i]: that job was done, and runs again because its outputs, or what it was made
  // of, are gone.
  std::vector<std::vector<bool>> remade_;
  std::vector<JobId> with_lost_;  // done jobs whose outputs are gone
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

/// Why a job that has ended, or is held, is queued again; "": it is not.
std::string Planner::why_again(const Job& job, bool is_need_remade) const {
  if (job.state != JobState::Done) {
    const bool may = is_ended(job.state) || job.state == JobState::Held;
    return may && !context_.only_new ? "submitted again" : "";
  }
  if (context_.rerun) return "run again (--rerun)";
  if (context_.only_new) return "";
  if (job.repeat_skipped) return "run again: its repeat was skipped";
  if (const auto lost = lost_.jobs.find(job.id); lost != lost_.jobs.end()) {
    return "its outputs are gone: " + lost->second;
  }
  return is_need_remade ? "a job it needs runs again" : "";
}

/// What is said of done jobs whose outputs are gone, or may be.
void Planner::tell_lost() {
  if (!lost_.unseen.empty()) {
    out_.reply.warnings.push_back(
        fmt::format("can't check whether the outputs of done jobs still exist: {}", lost_.unseen));
  }
  if (with_lost_.empty()) return;
  const Job& first = *world_.job(with_lost_.front());
  const std::string others =
      with_lost_.size() > 1 ? fmt::format(" (and those of {} more)", with_lost_.size() - 1) : "";
  out_.reply.warnings.push_back(fmt::format(
      "outputs of done jobs are gone: job {} ({}): {}{}; {}", first.id.value, world_.path_of(first),
      lost_.jobs.at(first.id), others,
      context_.only_new
          ? "because of --only-new they don't run again"
          : "they run again, and so do the jobs that need them (unless you pass --only-new)"));
}

/// Versions of the job that were replaced while they ran, and run.
void Planner::note_older(JobId current) {
  for (JobId old = current; old; old = world_.replaces(old)) {
    if (is_live(world_.job(old)->state)) out_.reply.old_running.push_back(old.value);
  }
}

void Planner::tell_older() {
  constexpr std::size_t kMostNamed = 30;
  std::vector<std::int64_t>& old = out_.reply.old_running;
  if (old.empty()) return;
  std::sort(old.begin(), old.end());
  std::string ids;
  for (std::size_t i = 0; i < std::min(old.size(), kMostNamed); ++i) {
    ids += fmt::format(" {}", old[i]);
  }
  const bool is_one = old.size() == 1;
  out_.reply.warnings.push_back(fmt::format(
      "{} {} from an earlier version of the file; {} end{} first, then the replacement "
      "for {} starts. To end {} now: pergpu cancel{}{}",
      counted(old.size(), "running job"), is_one ? "is" : "are", is_one ? "it" : "they",
      is_one ? "s" : "", is_one ? "it" : "them", is_one ? "it" : "them", ids,
      old.size() > kMostNamed
          ? fmt::format(" (the first {}; `pergpu ps {}` lists all)", kMostNamed, out_.reply.sweep)
          : ""));
}

/// The same file under another root begins from nothing: --out was forgotten, or is meant.
void Planner::tell_other_results(const std::string& root, const std::string& name) {
  if (!out_.is_new || file_.file.empty()) return;
  for (const SweepId id : world_.sweeps_named(name)) {
    const Sweep* other = world_.sweep(id);
    if (other == nullptr || other->spec.file != file_.file) continue;
    if (is_superseded(world_, *other, context_)) continue;  // it has none
    out_.reply.warnings.push_back(
        fmt::format("this file also has results in {}, as sweep {}@{}; the new sweep has its "
                    "results in {}. To continue the earlier one: --out {}",
                    other->root, name, id.value, root, other->root));
    return;
  }
}

/// What was only simulated is not there: the sweep is a new one.
void Planner::supersede() {
  superseded_ = World::cleaned_row(known_->id, "");
  out_.reply.warnings.push_back(
      fmt::format("sweep {} was only simulated before (--engine fake): nothing of it is kept, and "
                  "its jobs run now",
                  known_->name));
  known_ = nullptr;
}

/// Whether it is a done job that is made again.
bool Planner::plan_job(std::size_t step, std::int32_t run, const JobIdentity& identity,
                       bool is_need_remade) {
  JobId old;
  if (known_ != nullptr) {
    if (std::optional<int> slot = known_->slot_of(file_.steps[step].name)) {
      old = World::current(*known_, *slot, run);
    }
  }
  const Job* job = world_.job(old);
  named_ += job != nullptr && world_.is_listed(old) ? 1 : 0;
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
    note_older(old);
    return false;
  }
  out_.reply.jobs.push_back(old.value);
  note_older(world_.replaces(old));
  const bool was_done = job->state == JobState::Done;
  const bool has_lost = was_done && lost_.jobs.contains(old);
  if (has_lost) with_lost_.push_back(old);
  std::string why = why_again(*job, is_need_remade);
  if (why.empty()) {
    ++out_.reply.kept;
    return false;
  }
  event(old, event::Requeued{std::move(why)});
  ++out_.reply.requeued;
  if (has_lost) ++out_.reply.outputs_gone;
  return was_done && !context_.rerun;
}

void Planner::plan_step(std::size_t index) {
  const StepSpec& step = file_.steps[index];
  std::vector<JobIdentity>& mine = identities_[index];
  std::optional<JobIdentity> all_runs;
  if (uses_runs(step)) all_runs = identity_of_runs(file_.runs);

  // What spans all runs is combined once, not once per job.
  std::vector<JobIdentity> shared;
  std::vector<std::size_t> same_run;
  bool is_any_remade = false;  // of what all its jobs need
  for (const Need& need : step.needs) {
    const std::size_t other = static_cast<std::size_t>(need.step);
    if (need.scope == Need::Scope::SameRun && !step.once && !file_.steps[other].once) {
      same_run.push_back(other);
      continue;
    }
    shared.push_back(file_.steps[other].once ? identities_[other].front()
                                             : combined_identity(identities_[other]));
    is_any_remade |= std::ranges::find(remade_[other], true) != remade_[other].end();
  }
  if (step.once) {
    mine.push_back(job_identity(step, nullptr, shared, all_runs ? &*all_runs : nullptr));
    remade_[index].push_back(plan_job(index, -1, mine.front(), is_any_remade));
    return;
  }
  mine.reserve(file_.runs.size());
  for (std::size_t i = 0; i < file_.runs.size(); ++i) {
    std::vector<JobIdentity> needs = shared;
    bool is_need_remade = is_any_remade;
    for (std::size_t other : same_run) {
      needs.push_back(identities_[other][i]);
      is_need_remade = is_need_remade || remade_[other][i];
    }
    mine.push_back(
        job_identity(step, &file_.runs[i], std::move(needs), all_runs ? &*all_runs : nullptr));
    remade_[index].push_back(plan_job(index, run_index_[i], mine.back(), is_need_remade));
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
      if (listed) continue;
      note_older(id);
      if (job->state != JobState::Queued && job->state != JobState::Held) continue;
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
  std::size_t rows = 2 + (superseded_ ? 1 : 0) + file_.runs.size() + file_.limits.size();
  for (const StepSpec& step : file_.steps) rows += step.once ? 1 : file_.runs.size();
  return rows;
}

/// Whether the known sweep's other rows stay.  Invalid: they would have to go, and may not.
Result<bool> Planner::adds() {
  if (context_.add) {
    Result<void> may = known_ == nullptr ? check_growth(file_) : check_growth(file_, *known_);
    if (!may) return std::move(may).error();
    return known_ != nullptr;
  }
  if (!context_.overrides || known_ == nullptr) return false;
  std::vector<bool> named(known_->runs.size(), false);
  for (const RunSpec& run : file_.runs) {
    if (const auto known = known_->run_index.find(known_->runs, run.json)) {
      named[static_cast<std::size_t>(*known)] = true;
    }
  }
  std::int64_t others = 0;
  for (std::size_t run = 0; run < named.size(); ++run) {
    others += !named[run] && known_->runs[run].listed ? 1 : 0;
  }
  if (others == 0) return false;
  const Result<void> may = check_growth(file_, *known_);
  if (may) return true;
  std::int64_t waiting = 0;
  std::int64_t running = 0;
  for (const Step& step : known_->steps) {
    for (const JobId id : step.current) {
      const Job* job = world_.job(id);
      const bool is_other = job != nullptr && job->run >= 0 &&
                            !named[static_cast<std::size_t>(job->run)] && world_.is_listed(id);
      if (!is_other || is_ended(job->state)) continue;
      ++(is_live(job->state) ? running : waiting);
    }
  }
  std::string why = may.error().message;
  if (why.starts_with("--add: ")) why.erase(0, std::string_view("--add: ").size());
  if (waiting + running == 0) {
    out_.reply.warnings.push_back(
        fmt::format("-p: the {} of sweep {} {} ended and {} not part of it until you "
                    "submit the file without -p, because rows can't be added to it: {}",
                    counted(others, "other run"), known_->name, others == 1 ? "has" : "have",
                    others == 1 ? "is" : "are", why));
    return false;
  }
  return Error{
      ErrorKind::Invalid, 0,
      fmt::format("-p: sweep {} has {} with {} queued or held and {} running. "
                  "They would leave the sweep, and the queued ones would be cancelled, because "
                  "rows can't be added to it: {}. Write the values into the file, use another "
                  "folder (--out DIR), or cancel the sweep first (pergpu cancel {})",
                  known_->name, counted(others, "other run"), counted(waiting, "job"), running, why,
                  selector_of(world_, *known_))};
}

/// Jobs of the rows that this file does not name, and that stay.
void Planner::count_others() {
  if (!out_.adds) return;
  for (const Step& step : known_->steps) {
    if (step.listed) out_.reply.others += step.total;
  }
  out_.reply.others -= named_;
}

Result<SubmitPlan> Planner::plan() {
  const std::string root = output_root(file_);
  SweepSpec spec = file_;
  spec.runs.clear();
  if (context_.unique_name) spec.name = unique_name(world_, root, spec.name);
  known_ = world_.sweep(moved_ ? moved_ : world_.sweep_at(root, spec.name));
  if (known_ != nullptr && is_superseded(world_, *known_, context_)) supersede();
  out_.is_new = known_ == nullptr;
  Result<bool> may_add = adds();
  if (!may_add) return std::move(may_add).error();
  out_.adds = *may_add;
  if (out_.adds) spec.columns = columns_with(*known_, file_);
  columns_ = spec.columns;
  out_.sweep = known_ == nullptr ? world_.next_sweep_id() : known_->id;
  next_job_ = world_.next_job_id();
  identities_.resize(file_.steps.size());
  remade_.resize(file_.steps.size());

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
  if (superseded_) out_.rows.push_back(*std::move(superseded_));
  for (std::size_t step : needs_first(file_.steps)) plan_step(step);
  drop_unlisted();
  remember_successes();
  tell_lost();
  count_others();
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
  tell_older();
  tell_other_results(root, spec.name);
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
                               const SubmitContext& context, Instant now, SweepId moved,
                               const LostOutputs& lost) {
  return Planner(world, sweep, context, now, moved, lost).plan();
}

Remembered with_remembered(const World& world, const SweepSpec& sweep, SubmitContext context,
                           SweepId moved) {
  Remembered out{.context = std::move(context)};
  SubmitContext& now = out.context;
  const auto inherits = [&](const char* option) {
    return std::find(now.inherit.begin(), now.inherit.end(), option) != now.inherit.end();
  };
  const Sweep* known = known_sweep(world, sweep, now, moved);
  if (known == nullptr || now.inherit.empty()) return out;
  const SubmitContext& before = known->context;
  if (inherits("on") && before.engine == kSlurm && now.engine == "local") {
    now.engine = kSlurm;
    now.devices.clear();
    out.said.emplace_back("--on slurm");
    return out;
  }
  if (now.engine == kSlurm) return out;
  if (inherits("lanes") && before.lanes > 0) {
    now.lanes = before.lanes;
    out.said.push_back(fmt::format("--lanes {}", before.lanes));
  }
  if (inherits("devices") && before.devices_given && now.devices.empty()) {
    now.devices = before.devices;
    now.devices_given = true;
    out.said.push_back(fmt::format("--devices {}", before.devices));
  }
  return out;
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
