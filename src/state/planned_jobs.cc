// The plan's rows say what is new and what is queued again; all else is as the world has it.
#include "state/planned_jobs.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <variant>

#include "job/retry_wait.h"

namespace pergpu {

PlannedJobs::PlannedJobs(const World& world, const SweepSpec& file, const SubmitPlan& plan,
                         Instant now)
    : file_(file) {
  const Sweep* known = world.sweep(plan.sweep);
  std::unordered_map<std::string_view, const row::Run*> new_runs;
  std::map<std::pair<std::int16_t, std::int32_t>, const row::NewJob*> new_jobs;
  std::unordered_set<JobId> requeued;
  for (const Row& row : plan.rows) {
    if (const auto* run = std::get_if<row::Run>(&row)) new_runs[run->json] = run;
    if (const auto* job = std::get_if<row::NewJob>(&row)) new_jobs[{job->step, job->run}] = job;
    const auto* event = std::get_if<row::Event>(&row);
    if (event && std::holds_alternative<event::Requeued>(*event->event)) {
      requeued.insert(event->job);
    }
  }

  for (const RunSpec& run : file.runs) {
    if (const auto fresh = new_runs.find(run.json); fresh != new_runs.end()) {
      runs_.push_back(fresh->second->index);
      folders_.push_back(fresh->second->folder);
    } else {
      runs_.push_back(known->run_index.find(known->runs, run.json).value());
      folders_.emplace_back(known->runs[static_cast<std::size_t>(runs_.back())].folder());
    }
  }

  std::size_t next_slot = known == nullptr ? 0 : known->steps.size();
  for (std::size_t step = 0; step < file.steps.size(); ++step) {
    const int slot = known == nullptr ? -1 : known->slot_of(file.steps[step].name).value_or(-1);
    slots_.push_back(
        static_cast<std::int16_t>(slot >= 0 ? static_cast<std::size_t>(slot) : next_slot++));
    std::vector<Entry>& entries = entries_.emplace_back();
    const std::size_t count = file.steps[step].once ? 1 : file.runs.size();
    for (std::size_t row = 0; row < count; ++row) {
      const std::int32_t run = file.steps[step].once ? -1 : runs_[row];
      const auto fresh = new_jobs.find({static_cast<std::int16_t>(step), run});
      Entry entry;
      if (fresh != new_jobs.end()) {
        entry.id = fresh->second->id;
        entry.is_new = true;
        const Job* older = world.job(fresh->second->replaces);
        if (older != nullptr && is_live(older->state)) entry.older = older->id;
      } else {
        entry.id = World::current(*known, slot, run);
        const Job& job = *world.job(entry.id);
        const bool again = requeued.contains(entry.id);
        entry.becomes = again ? JobState::Queued : job.state;
        entry.waits = !again && retry_wait_ns(job, now, now.boot_ns) > 0;
        const Job* older = world.job(world.replaces(entry.id));
        if (older != nullptr && is_live(older->state)) entry.older = older->id;
      }
      entry.waits = entry.waits || entry.older;
      entries.push_back(entry);
    }
    const auto is_done = [](const Entry& e) { return e.becomes == JobState::Done; };
    const auto has_ended = [](const Entry& e) { return is_ended(e.becomes); };
    done_.push_back(
        static_cast<std::size_t>(std::count_if(entries.begin(), entries.end(), is_done)));
    ended_.push_back(
        static_cast<std::size_t>(std::count_if(entries.begin(), entries.end(), has_ended)));
  }
}

Sweep PlannedJobs::as_sweep(SweepId id, const SubmitContext& context) const {
  Sweep sweep;
  sweep.id = id;
  sweep.context.lanes = context.lanes;
  sweep.context.devices = context.devices;
  sweep.context.engine = context.engine;
  for (std::size_t step = 0; step < file_.steps.size(); ++step) {
    const auto slot = static_cast<std::size_t>(slots_[step]);
    if (sweep.steps.size() <= slot) sweep.steps.resize(slot + 1);
    sweep.steps[slot].spec = file_.steps[step];
    sweep.open += std::ranges::count_if(
        entries_[step], [](const Entry& entry) { return !is_ended(entry.becomes); });
  }
  return sweep;
}

bool PlannedJobs::ready(std::size_t step, std::size_t row) const {
  const Entry& entry = entries_[step][row];
  if (entry.becomes != JobState::Queued || entry.waits) return false;
  const StepSpec& spec = file_.steps[step];
  return std::all_of(spec.needs.begin(), spec.needs.end(), [&](const Need& need) {
    const auto needed = static_cast<std::size_t>(need.step);
    const std::vector<Entry>& theirs = entries_[needed];
    const bool once = file_.steps[needed].once;
    if (need.scope == Need::Scope::Ended) return ended_[needed] == theirs.size();
    if (need.scope == Need::Scope::All || (spec.once && !once)) {
      return done_[needed] == theirs.size();
    }
    return theirs[once ? 0 : row].becomes == JobState::Done;
  });
}

}  // namespace pergpu
