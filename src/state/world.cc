// How rows become the world.  Order matters only as far as the store keeps it: a sweep before its
// runs, a run before its jobs, a job before its events.
#include "state/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "number.h"
#include "spec/sweep/wire.h"

namespace pergpu {
namespace {

/// Far more than a disk holds: a damaged number must not ask for memory.
constexpr std::int64_t kLastJobNumber = 1'000'000'000;

// Followed by the number of a sweep:
constexpr std::string_view kCleaned = "clean:";
constexpr std::string_view kMoving = "moving:";

std::optional<SweepId> sweep_of_key(std::string_view prefix, std::string_view key) {
  if (!key.starts_with(prefix)) return std::nullopt;
  key.remove_prefix(prefix.size());
  const std::optional<std::int64_t> number = whole_number<std::int64_t>(key);
  if (!number || *number < 1) return std::nullopt;
  return SweepId{*number};
}

bool is_archived_as(const Sweep& sweep, const row::Archived& r) {
  return sweep.open == 0 && sweep.jobs == r.jobs && sweep.first_job == r.first_job &&
         sweep.last_job == r.last_job;
}

Error corrupt(std::string what) { return Error{ErrorKind::Corrupt, 0, std::move(what)}; }

}  // namespace

std::optional<int> Sweep::slot_of(std::string_view step) const {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].spec.name == step) return static_cast<int>(i);
  }
  return std::nullopt;
}

Result<void> World::absorb(const Row& row) {
  return std::visit(Overloaded{
                        [&](const row::Sweep& r) { return absorb_sweep(r); },
                        [&](const row::Run& r) { return absorb_run(r); },
                        [&](const row::NewJob& r) { return absorb_job(r); },
                        [&](const row::Event& r) { return absorb_event(r); },
                        [&](const row::Limit& r) -> Result<void> {
                          limits_[r.name] = r.value;
                          return {};
                        },
                        [&](const row::Meta& r) -> Result<void> {
                          absorb_meta(r);
                          return {};
                        },
                        [&](const row::Archived& r) { return absorb_archived(r); },
                        [&](const row::Environment&) -> Result<void> { return {}; },
                        [&](const row::Usage&) -> Result<void> { return {}; },
                    },
                    row);
}

Result<void> World::absorb_sweep(const row::Sweep& r) {
  Result<SweepSpec> spec = sweep_from_wire(r.spec);
  if (!spec) return corrupt("sweep " + r.name + ": " + spec.error().message);
  Result<SubmitRecord> record = submit_record_of(r.submit);
  if (!record) return corrupt("sweep " + r.name + ": " + record.error().message);

  Sweep& sweep = sweeps_[r.id];
  if (sweep.id && sweep.root != r.root) forget_name(r.id, sweep.name, sweep.root);  // it was moved
  sweep.id = r.id;
  sweep.root = r.root;
  sweep.name = r.name;
  sweep.submitted_at = r.at;
  sweep.context = std::move(record->context);
  sweep.unlisted_runs = std::move(record->unlisted_runs);
  std::sort(sweep.unlisted_runs.begin(), sweep.unlisted_runs.end());
  if (const auto forgotten = forgotten_.find(r.id); forgotten != forgotten_.end()) {
    forgotten->second = 0;
  } else {
    by_name_[{r.name, r.root}] = r.id;
  }

  // Slots are forever: a step keeps its slot when the file's order changes or it disappears.
  for (Step& step : sweep.steps) step.listed = false;
  std::vector<int> slot_of_index;
  for (StepSpec& declared : spec->steps) {
    std::optional<int> slot = sweep.slot_of(declared.name);
    if (!slot) {
      slot = static_cast<int>(sweep.steps.size());
      sweep.steps.emplace_back();
    }
    slot_of_index.push_back(*slot);
    Step& step = sweep.steps[static_cast<std::size_t>(*slot)];
    step.listed = true;
    step.file_order = static_cast<int>(slot_of_index.size()) - 1;
    step.spec = std::move(declared);
  }
  for (int slot : slot_of_index) {
    for (Need& need : sweep.steps[static_cast<std::size_t>(slot)].spec.needs) {
      if (need.step < 0 || static_cast<std::size_t>(need.step) >= slot_of_index.size()) {
        return corrupt("sweep " + r.name + ": a need names a step that does not exist");
      }
      need.step = slot_of_index[static_cast<std::size_t>(need.step)];
    }
  }
  spec->steps.clear();
  spec->runs.clear();
  sweep.spec = std::move(*spec);

  std::vector<bool> listed(sweep.runs.size(), true);
  for (std::int32_t index : sweep.unlisted_runs) {
    if (std::cmp_less(index, listed.size()) && index >= 0) {
      listed[static_cast<std::size_t>(index)] = false;
    }
  }
  for (std::size_t run = 0; run < listed.size(); ++run) {
    if (sweep.runs[run].listed != listed[run]) list_run(sweep, run, listed[run]);
  }
  return {};
}

/// Its jobs are counted only while it is listed.
void World::list_run(Sweep& sweep, std::size_t run, bool listed) {
  const auto count_all = [&](int sign) {
    for (const Step& step : sweep.steps) {
      const JobId id = run < step.current.size() ? step.current[run] : JobId{};
      if (id && job(id)->run >= 0) count(*job(id), sign);
    }
  };
  count_all(-1);
  sweep.runs[run].listed = listed;
  count_all(+1);
}

Result<void> World::absorb_archived(const row::Archived& r) {
  if (const Sweep* known = sweep(r.sweep)) {  // its last job has ended: it stays until a restart
    if (is_archived_as(*known, r)) return {};
    return corrupt("sweep " + known->name + " is archived wrongly");
  }
  if (r.first_job.value < 0 || r.last_job.value > kLastJobNumber || r.jobs < 0 ||
      r.jobs > kLastJobNumber) {
    return corrupt("the archived sweep " + r.name + " has impossible jobs");
  }
  last_job_ = std::max(last_job_, r.last_job);
  if (const auto forgotten = forgotten_.find(r.sweep); forgotten != forgotten_.end()) {
    forgotten->second = r.jobs;
    return {};
  }
  archived_[r.sweep] = r;
  archived_ranges_.add(r.sweep, r.first_job, r.last_job);
  by_name_[{r.name, r.root}] = r.sweep;
  return {};
}

void World::absorb_meta(const row::Meta& r) {
  meta_[r.key] = r.value;
  if (const std::optional<SweepId> moving = sweep_of_key(kMoving, r.key)) {
    half_moved_.erase(*moving);
    if (!r.value.empty() && !is_forgotten(*moving)) half_moved_.insert(*moving);
  }
  const std::optional<SweepId> cleaned = sweep_of_key(kCleaned, r.key);
  if (!cleaned) return;
  half_moved_.erase(*cleaned);
  put_aside_.erase(*cleaned);
  if (!r.value.empty()) put_aside_[*cleaned] = r.value;
  if (!forgotten_.emplace(*cleaned, 0).second) return;
  if (const Sweep* known = sweep(*cleaned)) forget_name(*cleaned, known->name, known->root);
  if (const auto known = archived_.find(*cleaned); known != archived_.end()) {
    forget_name(*cleaned, known->second.name, known->second.root);
    forgotten_[*cleaned] = known->second.jobs;
    archived_.erase(known);
  }
}

void World::forget_name(SweepId id, const std::string& name, const std::string& root) {
  const auto known = by_name_.find({name, root});
  if (known != by_name_.end() && known->second == id) by_name_.erase(known);
}

Result<void> World::check_whole() const {
  std::int64_t known = static_cast<std::int64_t>(jobs_.size());
  for (const auto& [id, sweep] : archived_) known += sweep.jobs;
  for (const auto& [id, jobs] : forgotten_) known += jobs;
  if (known == last_job_.value) return {};
  return corrupt("there are " + std::to_string(known) + " jobs, and the last one is number " +
                 std::to_string(last_job_.value));
}

Result<void> World::adopt(const std::vector<SweepId>& sweeps, World&& part) {
  for (const SweepId id : sweeps) {
    const auto known = archived_.find(id);
    const Sweep* sweep = part.sweep(id);
    const bool is_that =
        known != archived_.end() && sweep != nullptr && is_archived_as(*sweep, known->second);
    if (!is_that) {
      return corrupt("the store contradicts itself: sweep " + std::to_string(id.value) +
                     " is not what was archived; for details run `pergpu store check`");
    }
  }
  for (const SweepId id : sweeps) archived_.erase(id);
  sweeps_.merge(part.sweeps_);
  jobs_.merge(std::move(part.jobs_));
  replaces_.merge(part.replaces_);
  replaced_by_.merge(part.replaced_by_);
  return {};
}

Result<void> World::absorb_run(const row::Run& r) {
  Sweep* sweep = this->sweep(r.sweep);
  if (sweep == nullptr || static_cast<std::size_t>(r.index) != sweep->runs.size()) {
    return corrupt("run " + r.folder + " is out of place");
  }
  const std::vector<std::int32_t>& gone = sweep->unlisted_runs;
  sweep->runs.emplace_back(r.folder, r.json, r.texts,
                           !std::binary_search(gone.begin(), gone.end(), r.index));
  sweep->run_index.add(sweep->runs, r.index);
  return {};
}

Result<void> World::absorb_job(const row::NewJob& r) {
  Sweep* sweep = this->sweep(r.sweep);
  const bool may_be =
      r.id.value >= 1 && r.id.value <= kLastJobNumber && jobs_.find(r.id) == nullptr;
  if (sweep == nullptr || !may_be) {
    return corrupt("job " + std::to_string(r.id.value) + " is out of place");
  }
  std::optional<int> slot = sweep->slot_of(r.step_name);
  if (!slot) {
    // The step is no longer in the file: kept as a name, so that its history can be shown.
    slot = static_cast<int>(sweep->steps.size());
    Step& step = sweep->steps.emplace_back();
    step.spec.name = r.step_name;
    step.spec.once = r.run < 0;
    step.listed = false;
  }
  if (r.run >= static_cast<std::int32_t>(sweep->runs.size())) {
    return corrupt("job " + std::to_string(r.id.value) + " belongs to a run that does not exist");
  }
  Step& step = sweep->steps[static_cast<std::size_t>(*slot)];
  const std::size_t place = r.run < 0 ? 0 : static_cast<std::size_t>(r.run);
  if (step.current.size() <= place) step.current.resize(place + 1);
  if (JobId old = step.current[place]) count(*job(old), -1);

  JobTable::Entry& entry = jobs_.insert(r.id);
  last_job_ = std::max(last_job_, r.id);
  ++sweep->jobs;
  if (!sweep->first_job) sweep->first_job = r.id;
  sweep->last_job = r.id;
  entry.identity = r.identity;
  Job& job = entry.job;
  job.sweep = r.sweep;
  job.run = r.run;
  job.step = static_cast<std::int16_t>(*slot);
  Result<void> applied = apply(job, event::Submitted{}, r.at);
  if (!applied) return applied;
  step.current[place] = r.id;
  if (r.replaces) {
    replaces_.emplace(r.id, r.replaces);
    replaced_by_.emplace(r.replaces, r.id);
  }
  count(job, +1);
  note_state(job, std::nullopt);
  return {};
}

Result<void> World::absorb_event(const row::Event& r) {
  Job* job = this->job(r.job);
  if (job == nullptr)
    return corrupt("an event of job " + std::to_string(r.job.value) + ", which does not exist");
  const bool counted = is_current(*job);
  const JobState before = job->state;
  const bool was_held = is_held_for_good(*job);
  if (counted) count(*job, -1);
  Result<void> applied = apply(*job, r.event, r.at);
  if (counted) count(*job, +1);
  note_state(*job, before, was_held);
  if (!applied) {
    return corrupt("job " + std::to_string(r.job.value) + ": " + applied.error().message);
  }
  return {};
}

void World::count(const Job& job, int sign) {
  Sweep& sweep = sweep_of(job);
  if (job.run >= 0 && !sweep.runs[static_cast<std::size_t>(job.run)].listed) return;
  Step& step = sweep.steps[static_cast<std::size_t>(job.step)];
  step.total += sign;
  if (job.state == JobState::Done) step.done += sign;
  if (is_ended(job.state)) step.ended += sign;
  if (is_live(job.state)) step.live += sign;
  step.in_state[static_cast<std::size_t>(job.state)] += sign;
  if (is_held_by_breaker(job)) step.held_by_breaker += sign;
  if (const std::int64_t took = took_ns(job); job.state == JobState::Done && took > 0) {
    step.timed += sign;
    step.timed_ns += static_cast<std::uint64_t>(took) * static_cast<std::uint64_t>(sign);
  }
}

void World::note_state(const Job& job, std::optional<JobState> before, bool was_held) {
  const auto is_open = [](JobState state) { return is_ended(state) ? 0 : 1; };
  open_.put(job.id, is_open(job.state) == 1);
  queued_jobs_.put(job.id, job.state == JobState::Queued);
  held_jobs_.put(job.id, job.state == JobState::Held);
  live_jobs_.put(job.id, is_live(job.state));
  Sweep& sweep = sweep_of(job);
  sweep.open += is_open(job.state) - (before ? is_open(*before) : 0);
  sweep.held += (is_held_for_good(job) ? 1 : 0) - (was_held ? 1 : 0);
  queued_ += (job.state == JobState::Queued ? 1 : 0) - (before == JobState::Queued ? 1 : 0);
}

Sweep* World::sweep(SweepId id) {
  auto it = sweeps_.find(id);
  return it == sweeps_.end() ? nullptr : &it->second;
}
const Sweep* World::sweep(SweepId id) const {
  auto it = sweeps_.find(id);
  return it == sweeps_.end() ? nullptr : &it->second;
}
SweepId World::sweep_at(const std::string& root, const std::string& name) const {
  auto it = by_name_.find({name, root});
  return it == by_name_.end() ? SweepId{} : it->second;
}
std::vector<SweepId> World::archived_with(JobId id) const {
  std::vector<SweepId> found;
  if (job(id) != nullptr) return found;
  found = archived_ranges_.around(id);
  std::erase_if(found, [this](SweepId sweep) { return !archived_.contains(sweep); });
  return found;
}
std::vector<SweepId> World::sweeps_named(const std::string& name) const {
  std::vector<SweepId> found;
  for (auto it = by_name_.lower_bound({name, {}}); it != by_name_.end(); ++it) {
    if (it->first.first != name) break;
    found.push_back(it->second);
  }
  return found;
}
Job* World::job(JobId id) {
  JobTable::Entry* entry = jobs_.find(id);
  return entry == nullptr ? nullptr : &entry->job;
}
const Job* World::job(JobId id) const { return const_cast<World*>(this)->job(id); }
const JobIdentity& World::identity(JobId id) const { return jobs_.find(id)->identity; }
JobId World::current(const Sweep& sweep, int slot, std::int32_t run) {
  const std::vector<JobId>& current = sweep.steps[static_cast<std::size_t>(slot)].current;
  const std::size_t place = run < 0 ? 0 : static_cast<std::size_t>(run);
  return place < current.size() ? current[place] : JobId{};
}
bool World::is_current(const Job& job) const {
  return current(sweep_of(job), job.step, job.run) == job.id;
}
Sweep& World::sweep_of(const Job& job) { return sweeps_.find(job.sweep)->second; }
const Sweep& World::sweep_of(const Job& job) const { return sweeps_.find(job.sweep)->second; }
JobId World::replaces(JobId id) const {
  auto it = replaces_.find(id);
  return it == replaces_.end() ? JobId{} : it->second;
}
JobId World::replaced_by(JobId id) const {
  auto it = replaced_by_.find(id);
  return it == replaced_by_.end() ? JobId{} : it->second;
}
bool World::is_listed(JobId id) const {
  const Job& one = *job(id);
  if (!step_of(one).listed) return false;
  return one.run < 0 || sweep_of(one).runs[static_cast<std::size_t>(one.run)].listed;
}
Step& World::step_of(const Job& job) {
  return sweep_of(job).steps[static_cast<std::size_t>(job.step)];
}
const Step& World::step_of(const Job& job) const {
  return sweep_of(job).steps[static_cast<std::size_t>(job.step)];
}
std::vector<JobId> World::live_of(SweepId sweep) const {
  std::vector<JobId> live;
  live_jobs_.for_each([&](JobId id) {
    if (job(id)->sweep == sweep) live.push_back(id);
  });
  return live;
}
std::optional<RunSpec> World::parameters_of(const Job& job) const {
  if (job.run < 0) return std::nullopt;
  return sweep_of(job).runs[static_cast<std::size_t>(job.run)].spec();
}

std::int64_t World::last_touched_ns(const Sweep& sweep) const {
  std::int64_t last = sweep.submitted_at.wall_ns;
  for (const Step& step : sweep.steps) {
    for (const JobId id : step.current) {
      const Job* known = job(id);
      if (known == nullptr) continue;
      last = std::max(last, known->queued_at.wall_ns);
      if (known->last == nullptr) continue;
      const Attempt& attempt = *known->last;
      last = std::max({last, attempt.starting_at.wall_ns, attempt.started_at.wall_ns,
                       attempt.ended_at.wall_ns});
    }
  }
  return last;
}

SweepId World::next_sweep_id() const {
  const SweepId last = sweeps_.empty() ? SweepId{} : sweeps_.rbegin()->first;
  const SweepId archived = archived_.empty() ? SweepId{} : archived_.rbegin()->first;
  const SweepId forgotten = forgotten_.empty() ? SweepId{} : forgotten_.rbegin()->first;
  return SweepId{std::max({last, archived, forgotten}).value + 1};
}

row::Archived World::archived_row(const Sweep& sweep) {
  return {.sweep = sweep.id,
          .key = sweep.context.key,
          .first_job = sweep.first_job,
          .last_job = sweep.last_job,
          .jobs = sweep.jobs,
          .root = sweep.root,
          .name = sweep.name,
          .at = sweep.submitted_at};
}

row::Meta World::cleaned_row(SweepId id, const std::string& aside) {
  return {.key = std::string(kCleaned) + std::to_string(id.value), .value = aside};
}

row::Meta World::moving_row(SweepId id, bool is_moving) {
  return {.key = std::string(kMoving) + std::to_string(id.value), .value = is_moving ? "1" : ""};
}

std::string World::aside_of(const Sweep& sweep) {
  return sweep.folder() + "/.cleaned-" + std::to_string(sweep.id.value);
}

SweepSpec World::declared(const Sweep& sweep) {
  SweepSpec file = sweep.spec;
  std::vector<int> order(sweep.steps.size(), -1);  // by slot
  for (std::size_t slot = 0; slot < sweep.steps.size(); ++slot) {
    const Step& step = sweep.steps[slot];
    if (!step.listed) continue;
    order[slot] = step.file_order;
    const auto place = static_cast<std::size_t>(step.file_order);
    if (file.steps.size() <= place) file.steps.resize(place + 1);
    file.steps[place] = step.spec;
  }
  for (StepSpec& step : file.steps) {
    for (Need& need : step.needs) need.step = order[static_cast<std::size_t>(need.step)];
  }
  return file;
}

row::Sweep World::row_of(const Sweep& sweep, const SweepSpec& file, SubmitContext context) {
  return {.id = sweep.id,
          .root = sweep.root,
          .name = sweep.name,
          .spec = to_wire(file),
          .submit = to_text({.context = std::move(context), .unlisted_runs = sweep.unlisted_runs}),
          .at = sweep.submitted_at};
}

std::string World::path_of(const Job& job) const {
  const Sweep& sweep = sweep_of(job);
  const std::string_view run =
      job.run < 0 ? "_once" : sweep.runs[static_cast<std::size_t>(job.run)].folder();
  return fmt::format("{}/{}/{}", sweep.name, run, step_of(job).spec.name);
}

std::string World::out_of(const Sweep& sweep, int slot, std::int32_t run) const {
  const Step& step = sweep.steps[static_cast<std::size_t>(slot)];
  const std::string_view folder =
      step.spec.once || run < 0 ? "_once" : sweep.runs[static_cast<std::size_t>(run)].folder();
  return fmt::format("{}/{}/{}", sweep.folder(), folder, step.spec.name);
}
std::string World::out_of(const Job& job) const { return out_of(sweep_of(job), job.step, job.run); }

std::string to_text(const SubmitRecord& record) {
  nlohmann::json j = record.context;
  j.erase("env");
  if (!record.unlisted_runs.empty()) j["unlisted_runs"] = record.unlisted_runs;
  return j.dump();
}

Result<SubmitRecord> submit_record_of(const std::string& text) {
  const nlohmann::json j = nlohmann::json::parse(text, nullptr, false);
  if (!j.is_object()) return corrupt("the record of its submit is not a JSON object");
  SubmitRecord record{.context = j.get<SubmitContext>()};
  if (auto it = j.find("unlisted_runs"); it != j.end() && it->is_array()) {
    for (const nlohmann::json& index : *it) {
      if (index.is_number_integer()) record.unlisted_runs.push_back(index.get<std::int32_t>());
    }
  }
  return record;
}

}  // namespace pergpu
