// What a submit would do and what would start at once, for `--dry-run`: the plan of the submit,
// then the scheduler's own choices on copies of queue and capacity.  Nothing is recorded.
#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "coordinator/coordinator.h"
#include "coordinator/expectation.h"

namespace pergpu {
namespace {

/// The sweep's jobs as they would be once the plan is taken, by step and row of the file.
class PlannedJobs {
 public:
  struct Entry {
    JobId id = {};
    bool is_new = false;
    JobState becomes = JobState::Queued;
    bool waits = false;  // for a time, or for the end of the job's earlier version
  };

  PlannedJobs(const World& world, const SweepSpec& file, const SubmitPlan& plan,
              std::int64_t now_wall_ns);

  const std::vector<Entry>& of_step(std::size_t step) const { return entries_[step]; }
  /// Queued, and all that it needs is there.
  bool ready(std::size_t step, std::size_t row) const;
  std::int32_t run_of(std::size_t row) const { return runs_[row]; }
  const std::string& folder_of(std::size_t row) const { return folders_[row]; }
  std::vector<std::string> take_folders() { return std::move(folders_); }
  /// The step's place in Sweep::steps: World appends the new ones in file order.
  std::int16_t slot_of(std::size_t step) const { return slots_[step]; }

 private:
  const SweepSpec& file_;
  std::vector<std::vector<Entry>> entries_;
  std::vector<std::size_t> done_;   // by step
  std::vector<std::size_t> ended_;  // by step
  std::vector<std::int32_t> runs_;  // index of each row's run
  std::vector<std::string> folders_;
  std::vector<std::int16_t> slots_;
};

PlannedJobs::PlannedJobs(const World& world, const SweepSpec& file, const SubmitPlan& plan,
                         std::int64_t now_wall_ns)
    : file_(file) {
  const Sweep* known = world.sweep(plan.sweep);
  std::unordered_map<std::string_view, const row::Run*> new_runs;
  std::map<std::pair<std::int16_t, std::int32_t>, const row::NewJob*> new_jobs;
  std::unordered_set<JobId> requeued;
  for (const Row& row : plan.rows) {
    if (const auto* run = std::get_if<row::Run>(&row)) new_runs[run->json] = run;
    if (const auto* job = std::get_if<row::NewJob>(&row)) new_jobs[{job->step, job->run}] = job;
    const auto* event = std::get_if<row::Event>(&row);
    if (event && std::holds_alternative<event::Requeued>(event->event)) requeued.insert(event->job);
  }

  for (const RunSpec& run : file.runs) {
    if (const auto fresh = new_runs.find(run.json); fresh != new_runs.end()) {
      runs_.push_back(fresh->second->index);
      folders_.push_back(fresh->second->folder);
    } else {
      runs_.push_back(known->run_of_json.at(run.json));
      folders_.push_back(known->runs[static_cast<std::size_t>(runs_.back())].folder);
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
        entry.waits = older != nullptr && is_live(older->state);
      } else {
        entry.id = World::current(*known, slot, run);
        const Job& job = *world.job(entry.id);
        const bool again = requeued.contains(entry.id);
        entry.becomes = again ? JobState::Queued : job.state;
        entry.waits = !again && job.not_before_wall_ns > now_wall_ns;
      }
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

}  // namespace

Result<SubmitPreview> Coordinator::preview(const SweepSpec& file, const SubmitContext& context) {
  Result<SubmitPlan> plan = plan_checked(file, context);
  if (!plan) return std::move(plan).error();
  SubmitPreview out;
  out.starts = rehearse(file, context, *plan, &out.runs);
  out.reply = std::move(plan->reply);
  return out;
}

/// What waits of other sweeps competes as it would.  A GPU's lane is free here until the look right
/// before a start says otherwise.
std::vector<StartSnapshot> Coordinator::rehearse(const SweepSpec& file,
                                                 const SubmitContext& context,
                                                 const SubmitPlan& plan,
                                                 std::vector<std::string>* folders) const {
  PlannedJobs planned(*parts_.world, file, plan, parts_.clock->now().wall_ns);
  ReadyQueue queue = queue_;
  Capacity capacity = capacity_;
  parts_.gpus->fill(capacity);

  // The plan's version of this sweep takes the place of the one that is queued.
  for (const auto& [id, entry] : ready_) {
    if (entry.step.sweep == plan.sweep) queue.erase(entry);
  }
  Sweep sweep;
  sweep.id = plan.sweep;
  sweep.context.lanes = context.lanes;
  sweep.context.devices = context.devices;
  for (std::size_t step = 0; step < file.steps.size(); ++step) {
    const auto slot = static_cast<std::size_t>(planned.slot_of(step));
    if (sweep.steps.size() <= slot) sweep.steps.resize(slot + 1);
    sweep.steps[slot].spec = file.steps[step];
  }
  declare(sweep, queue, capacity);
  for (const auto& [name, value] : file.limits) capacity.limits[name].value = value;

  struct Origin {
    std::size_t step;
    std::size_t row;
  };
  std::unordered_map<JobId, Origin> origins;
  for (std::size_t step = 0; step < file.steps.size(); ++step) {
    const bool once = file.steps[step].once;
    for (std::size_t row = 0; row < planned.of_step(step).size(); ++row) {
      const JobId id = planned.of_step(step)[row].id;
      if (!planned.ready(step, row) || acquiring_.contains(id)) continue;
      const Job* known = parts_.world->job(id);
      const bool is_queued = known != nullptr && known->state == JobState::Queued;
      queue.insert({.id = id,
                    .step = {plan.sweep, planned.slot_of(step)},
                    .run = once ? -1 : planned.run_of(row),
                    .expected_ns = expected_ns(file.steps[step], once ? nullptr : &file.runs[row],
                                               once ? 0 : planned.run_of(row), known),
                    .growths = is_queued ? growths_of(*known) : Growths{}});
      origins.emplace(id, Origin{step, row});
    }
  }

  std::vector<StartSnapshot> starts;
  while (std::optional<Choice> choice = choose(queue, capacity)) {
    queue.take(choice->job, choice->overtaken);
    capacity.occupy(choice->job.step, *queue.demand(choice->job.key()), choice->lane, choice->gpus,
                    "would be in use");
    const auto ours = origins.find(choice->job.id);
    if (ours == origins.end()) continue;
    const auto [step, row] = ours->second;
    StartSnapshot start{.step = file.steps[step].name, .lane = to_string(choice->lane)};
    if (!planned.of_step(step)[row].is_new) start.id = choice->job.id.value;
    if (!file.steps[step].once) start.run = planned.folder_of(row);
    starts.push_back(std::move(start));
  }
  *folders = planned.take_folders();
  return starts;
}

}  // namespace pergpu
