// Jobs first, then who waits for whom: what a job needs is either open and in the forecast, or done
// and no matter, or ended otherwise, and then the job will not run.
#include "forecast/forecast_input.h"

#include <algorithm>
#include <utility>

#include "forecast/expectation.h"
#include "job/growth.h"
#include "job/retry_wait.h"
#include "state/readiness.h"

namespace pergpu {
namespace {

using Kind = ForecastJob::Kind;

std::int64_t or_forever(std::int64_t duration_ns) {
  return duration_ns > 0 ? duration_ns : ForecastJob::kForever;
}

}  // namespace

std::string ForecastInput::path_of(std::uint32_t job) const {
  const Name& name = names[job];
  return name.sweep + "/" + (name.run.empty() ? "_once" : name.run) + "/" + name.step;
}

Demand demand_on_cluster(const StepSpec& step) {
  Demand demand = demand_of(step, LaneId::Pool::Sweep);
  demand.overcommit = true;
  demand.max_starting.reset();
  return demand;
}

ForecastInputBuilder::ForecastInputBuilder(Parts parts) : parts_(std::move(parts)) {
  out_.now_boot_ns = parts_.now.boot_ns;
  out_.now_wall_ns = parts_.now.wall_ns;
  for (const auto& [id, running] : parts_.running) {
    elapsed_[running.key].push_back(elapsed_of(*parts_.world->job(id)));
  }
}

std::int64_t ForecastInputBuilder::elapsed_of(const Job& job) const {
  const std::int64_t started = job.last->started_at.boot_ns;
  return started == 0 ? 0 : std::max<std::int64_t>(parts_.now.boot_ns - started, 0);
}

std::int64_t ForecastInputBuilder::learnt_of(const StepKey& step) const {
  const Sweep* sweep = parts_.world->sweep(step.sweep);
  const auto slot = static_cast<std::size_t>(step.step);
  if (sweep == nullptr || slot >= sweep->steps.size()) return 0;
  const auto elapsed = elapsed_.find(step);
  return elapsed == elapsed_.end() ? learnt_ns(sweep->steps[slot])
                                   : learnt_ns(sweep->steps[slot], elapsed->second);
}

std::uint32_t ForecastInputBuilder::add(JobId id, ForecastJob job, bool asked,
                                        ForecastInput::Name name) {
  const auto place = static_cast<std::uint32_t>(out_.jobs.jobs.size());
  out_.jobs.jobs.push_back(std::move(job));
  out_.ids.push_back(id);
  out_.asked.push_back(asked);
  if (parts_.with_names) out_.names.push_back(std::move(name));
  place_of_.emplace(id, place);
  return place;
}

/// `told_ns`: what its sweep file says, `like`: what was learned of such jobs, in the company they
/// had. What a user has said is taken as it is.
ForecastInputBuilder::Foreseen ForecastInputBuilder::foreseen(
    const StepKey& key, const StepSpec& step, bool asked, std::int64_t told_ns,
    const std::optional<Estimate>& like) const {
  Foreseen out{.order_ns = told_ns > 0 ? told_ns : ns_of(like)};
  if (const auto given = parts_.given.find(step.name); asked && given != parts_.given.end()) {
    out.ns = given->second;
    return out;
  }
  out.ns = out.order_ns > 0 ? out.order_ns : learnt_of(key);
  const bool has_cores = like && like->cores > 0 && like->duration_s > 0;
  if (out.ns == 0 || !has_cores) return out;
  const double alone = static_cast<double>(out.ns) * like->alone_s / like->duration_s;
  out.ns = std::max<std::int64_t>(static_cast<std::int64_t>(alone), 1);
  out.cores = like->cores;
  return out;
}

ForecastInputBuilder::Foreseen ForecastInputBuilder::foreseen(const Job& job, bool asked) const {
  const World& world = *parts_.world;
  const StepSpec& step = world.step_of(job).spec;
  std::optional<Estimate> like;
  if (parts_.learnt != nullptr && step.expect.empty()) {
    like = pergpu::learnt_of(world, job, *parts_.learnt);
  }
  return foreseen({job.sweep, job.step}, step, asked, expected_ns(world, job), like);
}

/// What it has behind it, in the time that it takes when it has the cores it wants.
std::int64_t ForecastInputBuilder::done_of(const Job& job, const RunningAttempt& running,
                                           double cores) const {
  const std::int64_t elapsed = elapsed_of(job);
  const CpuShare* share =
      parts_.telemetry == nullptr || cores <= 0 ? nullptr : parts_.telemetry->share(running.id);
  if (share == nullptr) return elapsed;
  return static_cast<std::int64_t>(share->alone_s(static_cast<double>(elapsed) / 1e9, cores) * 1e9);
}

ForecastInput::Name ForecastInputBuilder::name_of(const Job& job) const {
  if (!parts_.with_names) return {};
  const Sweep& sweep = parts_.world->sweep_of(job);
  ForecastInput::Name name{.sweep = sweep.name, .step = parts_.world->step_of(job).spec.name};
  if (job.run >= 0) name.run = sweep.runs[static_cast<std::size_t>(job.run)].folder();
  return name;
}

void ForecastInputBuilder::add_job(const Job& job, bool asked) {
  ForecastJob forecast{.kind = job.state == JobState::Held ? Kind::Held : Kind::Queued,
                       .step = {job.sweep, job.step},
                       .run = job.run,
                       .growths = growths_of(job)};
  if (is_live(job.state)) return add_live(job, std::move(forecast), asked);
  const Foreseen expected = foreseen(job, asked);
  forecast.order_ns = expected.order_ns;
  forecast.duration_ns = or_forever(expected.ns);
  const bool is_elsewhere = parts_.world->sweep_of(job).context.engine == kSlurm;
  forecast.cores = is_elsewhere ? 0 : expected.cores;  // they are another machine's
  forecast.not_before_ns = retry_wait_ns(job, parts_.now, parts_.now.boot_ns);
  add(job.id, std::move(forecast), asked, name_of(job));
}

void ForecastInputBuilder::add_live(const Job& job, ForecastJob forecast, bool asked) {
  const auto found = parts_.running.find(job.id);
  if (found == parts_.running.end()) return add_elsewhere(job, std::move(forecast), asked);
  const RunningAttempt& running = found->second;
  forecast.kind = Kind::Live;
  forecast.hold = ForecastJob::Hold{.demand = running.demand,
                                    .lane = running.lane,
                                    .gpus = running.gpus,
                                    .starting_up = running.starting_up};
  const Foreseen expected = foreseen(job, asked);
  const bool is_ending = job.state == JobState::Stopping || running.has_ended;
  if (is_ending) {
    forecast.duration_ns = 0;
  } else if (expected.ns == 0) {
    forecast.duration_ns = ForecastJob::kForever;
  } else {
    const std::int64_t done = done_of(job, running, expected.cores);
    forecast.duration_ns = std::max<std::int64_t>(left_ns(expected.ns, done), 1);
    forecast.cores = expected.cores;
  }
  add(job.id, std::move(forecast), asked, name_of(job));
}

/// It runs on a cluster.
void ForecastInputBuilder::add_elsewhere(const Job& job, ForecastJob forecast, bool asked) {
  if (parts_.world->sweep_of(job).context.engine != kSlurm) return;
  forecast.kind = Kind::Live;
  forecast.hold = ForecastJob::Hold{.demand = demand_on_cluster(parts_.world->step_of(job).spec),
                                    .lane = job.last->placement.lane};
  const std::int64_t expected_ns = foreseen(job, asked).ns;
  forecast.duration_ns = job.state == JobState::Stopping ? 0
                         : expected_ns == 0
                             ? ForecastJob::kForever
                             : std::max<std::int64_t>(left_ns(expected_ns, elapsed_of(job)), 1);
  add(job.id, std::move(forecast), asked, name_of(job));
}

void ForecastInputBuilder::add_world(SweepId planned, const std::function<bool(JobId)>& asked) {
  const World& world = *parts_.world;
  world.open_jobs().for_each([&](JobId id) {
    const Job& job = *world.job(id);
    const bool is_planned = job.sweep == planned;
    if (is_planned && !is_live(job.state)) return;
    const std::size_t before = out_.jobs.jobs.size();
    add_job(job, asked(id));
    const bool was_added = out_.jobs.jobs.size() > before;
    if (!was_added || is_planned || !world.is_current(job) || !world.is_listed(id)) return;
    of_step_[{job.sweep, job.step}].push_back(static_cast<std::uint32_t>(before));
  });
}

void ForecastInputBuilder::add_planned(const SweepSpec& file, const SubmitPlan& plan,
                                       const PlannedJobs& planned) {
  const SweepId sweep = plan.sweep;
  planned_ = {.file = &file, .sweep = sweep, .jobs = &planned};
  const World& world = *parts_.world;
  for (std::size_t step = 0; step < file.steps.size(); ++step) {
    const StepSpec& spec = file.steps[step];
    const StepKey key{sweep, planned.slot_of(step)};
    const auto given = parts_.given.find(spec.name);
    const std::vector<PlannedJobs::Entry>& entries = planned.of_step(step);
    for (std::size_t row = 0; row < entries.size(); ++row) {
      const PlannedJobs::Entry& entry = entries[row];
      if (is_ended(entry.becomes)) continue;
      if (is_live(entry.becomes)) {
        const auto there = place_of_.find(entry.id);
        if (there == place_of_.end()) continue;
        out_.asked[there->second] = true;
        if (given != parts_.given.end() && out_.jobs.jobs[there->second].duration_ns != 0) {
          out_.jobs.jobs[there->second].duration_ns =
              left_ns(given->second, elapsed_of(*world.job(entry.id)));
          out_.jobs.jobs[there->second].cores = 0;
        }
        of_step_[key].push_back(there->second);
        continue;
      }
      const Job* job = entry.is_new ? nullptr : world.job(entry.id);
      const std::int32_t run = spec.once ? -1 : planned.run_of(row);
      const RunSpec* parameters = spec.once ? nullptr : &file.runs[row];
      const bool looks_at_each =
          parts_.learnt != nullptr && file.runs.size() <= kMostEstimatedRuns && spec.expect.empty();
      std::optional<Estimate> like;
      if (looks_at_each) like = parts_.learnt->estimate(spec, parameters);
      const std::int64_t told_ns = expected_ns(spec, parameters, spec.once ? 0 : run, job);
      const Foreseen expected = foreseen(key, spec, /*asked=*/true, told_ns, like);
      ForecastJob forecast{.kind = entry.becomes == JobState::Held ? Kind::Held : Kind::Queued,
                           .step = key,
                           .run = run,
                           .order_ns = expected.order_ns};
      forecast.duration_ns = or_forever(expected.ns);
      forecast.cores = expected.cores;
      if (job != nullptr && job->state == JobState::Queued) {
        forecast.growths = growths_of(*job);
        forecast.not_before_ns = retry_wait_ns(*job, parts_.now, parts_.now.boot_ns);
      }
      of_step_[key].push_back(add(entry.id, std::move(forecast), true,
                                  {.sweep = plan.reply.sweep,
                                   .run = spec.once ? std::string() : planned.folder_of(row),
                                   .step = spec.name,
                                   .is_new = entry.is_new}));
    }
  }
}

// ---- who waits for whom --------------------------------------------------------------------

/// `id` is needed, and is now in `state`.
void ForecastInputBuilder::need(std::uint32_t place, JobId id, JobState state, bool must_be_done) {
  if (const auto found = place_of_.find(id); found != place_of_.end()) {
    out_.jobs.jobs[place].needs.push_back(found->second);
  } else if (must_be_done && state != JobState::Done) {
    out_.jobs.jobs[place].kind = Kind::Held;  // it is to be skipped
  }
}

void ForecastInputBuilder::need_all(std::uint32_t place, StepKey step, bool is_doomed) {
  if (is_doomed) {
    out_.jobs.jobs[place].kind = Kind::Held;
    return;
  }
  if (const auto open = of_step_.find(step); open == of_step_.end() || open->second.empty()) return;
  out_.jobs.jobs[place].barriers.push_back(barrier_of(step));
}

std::uint32_t ForecastInputBuilder::barrier_of(StepKey step) {
  const auto [at, is_new] =
      barriers_.try_emplace(step, static_cast<std::uint32_t>(out_.jobs.barriers.size()));
  if (is_new) out_.jobs.barriers.push_back(of_step_[step]);
  return at->second;
}

void ForecastInputBuilder::link_world(std::uint32_t place) {
  const World& world = *parts_.world;
  const Job& job = *world.job(out_.ids[place]);
  if (const Job* older = world.job(world.replaces(job.id)); older && is_live(older->state)) {
    need(place, older->id, older->state, false);
  }
  const Sweep& sweep = world.sweep_of(job);
  const StepSpec& spec = world.step_of(job).spec;
  for (const Need& one : spec.needs) {
    const Step& needed = sweep.steps[static_cast<std::size_t>(one.step)];
    const Need::Scope scope = effective_scope(spec, one, needed.spec);
    if (scope == Need::Scope::SameRun) {
      const Job* other =
          world.job(World::current(sweep, one.step, needed.spec.once ? -1 : job.run));
      if (other != nullptr) need(place, other->id, other->state, true);
      continue;
    }
    const bool is_doomed = scope == Need::Scope::All && needed.ended > needed.done;
    need_all(place, {sweep.id, static_cast<std::int16_t>(one.step)}, is_doomed);
  }
}

void ForecastInputBuilder::link_planned() {
  const SweepSpec& file = *planned_.file;
  const PlannedJobs& planned = *planned_.jobs;
  std::vector<bool> is_doomed;  // by step: one of its jobs ended otherwise than done
  for (std::size_t step = 0; step < file.steps.size(); ++step) {
    const std::vector<PlannedJobs::Entry>& entries = planned.of_step(step);
    is_doomed.push_back(std::any_of(entries.begin(), entries.end(), [](const auto& entry) {
      return is_ended(entry.becomes) && entry.becomes != JobState::Done;
    }));
  }
  for (std::size_t step = 0; step < file.steps.size(); ++step) {
    const StepSpec& spec = file.steps[step];
    const std::vector<PlannedJobs::Entry>& entries = planned.of_step(step);
    for (std::size_t row = 0; row < entries.size(); ++row) {
      const PlannedJobs::Entry& entry = entries[row];
      const auto found = place_of_.find(entry.id);
      if (found == place_of_.end() || out_.jobs.jobs[found->second].kind != Kind::Queued) continue;
      const std::uint32_t place = found->second;
      if (entry.older) need(place, entry.older, JobState::Running, false);
      for (const Need& one : spec.needs) {
        const auto needed = static_cast<std::size_t>(one.step);
        const StepSpec& other = file.steps[needed];
        const Need::Scope scope = effective_scope(spec, one, other);
        if (scope == Need::Scope::SameRun) {
          const PlannedJobs::Entry& its = planned.of_step(needed)[other.once ? 0 : row];
          need(place, its.id, its.becomes, true);
        } else {
          need_all(place, {planned_.sweep, planned.slot_of(needed)},
                   scope == Need::Scope::All && is_doomed[needed]);
        }
      }
    }
  }
}

void ForecastInputBuilder::hold_what_waits_for_held() {
  std::vector<std::uint32_t> work;
  for (std::uint32_t i = 0; i < out_.jobs.jobs.size(); ++i) {
    if (out_.jobs.jobs[i].kind == Kind::Held) work.push_back(i);
  }
  if (work.empty()) return;
  const ForecastLinks links(out_.jobs);
  const auto hold = [&](std::uint32_t job) {
    if (out_.jobs.jobs[job].kind != Kind::Queued) return;
    out_.jobs.jobs[job].kind = Kind::Held;
    work.push_back(job);
  };
  while (!work.empty()) {
    const std::uint32_t job = work.back();
    work.pop_back();
    for (const std::uint32_t follower : links.followers[job]) hold(follower);
    for (const std::uint32_t barrier : links.member_of[job]) {
      for (const std::uint32_t follower : links.behind[barrier]) hold(follower);
    }
  }
}

ForecastInput ForecastInputBuilder::build() {
  for (std::uint32_t i = 0; i < out_.jobs.jobs.size(); ++i) {
    const ForecastJob& job = out_.jobs.jobs[i];
    if (job.kind == Kind::Queued && job.step.sweep != planned_.sweep) link_world(i);
  }
  if (planned_.file != nullptr) link_planned();
  hold_what_waits_for_held();
  return std::move(out_);
}

}  // namespace pergpu
