// What a submit would do and what would start at once, for `--dry-run`: the plan of the submit,
// then the scheduler's own choices on copies of queue and capacity, or the arrays that a cluster
// would get: what of them starts when only the cluster knows.  Nothing is recorded.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/submit_folders.h"
#include "forecast/expectation.h"
#include "forecast/plan_hint.h"
#include "slurm/array_preview.h"
#include "slurm/cluster.h"
#include "state/planned_jobs.h"

namespace pergpu {
namespace {

using Entries = std::vector<PlannedJobs::Entry>;

/// The known jobs among those that are planned.
std::unordered_set<JobId> known_of(const PlannedJobs& planned, std::size_t steps) {
  std::unordered_set<JobId> known;
  for (std::size_t step = 0; step < steps; ++step) {
    for (const PlannedJobs::Entry& entry : planned.of_step(step)) {
      if (!entry.is_new) known.insert(entry.id);
    }
  }
  return known;
}

/// Queued jobs of a step beside these.
std::int64_t queued_beside(const World& world, const Step& step, const Entries& entries) {
  return queued_of(step) -
         std::count_if(entries.begin(), entries.end(), [&](const PlannedJobs::Entry& entry) {
           return !entry.is_new && world.job(entry.id)->state == JobState::Queued &&
                  world.is_listed(entry.id);
         });
}

/// What is ready of the sweep when all that could start has its lane.
std::vector<WaitSnapshot> waits_of(const SweepSpec& file, const SubmitPlan& plan,
                                   const PlannedJobs& planned, const ReadyQueue& queue,
                                   const Capacity& capacity) {
  std::vector<WaitSnapshot> waits;
  for (std::size_t step = 0; step < file.steps.size(); ++step) {
    const StepKey key{plan.sweep, planned.slot_of(step)};
    const std::vector<ReadyJob> left = queue.ready(key);
    if (left.empty()) continue;
    const std::string why = why_not(queue, left.front().key(), capacity);
    waits.push_back({.step = file.steps[step].name,
                     .jobs = static_cast<std::int64_t>(left.size()),
                     .why = why.empty() ? "waits for its turn" : why});
  }
  return waits;
}

}  // namespace

void Coordinator::judge_for_preview(const SweepSpec& file, const SubmitContext& context,
                                    const std::function<void(FoundVerdict)>& then) {
  if (!may_find_results(file, context)) return then({});
  submit_folders_->judge(output_root(file), file.name, then);
}

Result<SubmitPreview> Coordinator::preview(const SweepSpec& file, const SubmitContext& given,
                                           const LostOutputs& lost, const FoundVerdict& found) {
  std::string refusal = found.why.empty() ? why_cleaned_now(file, given) : found.why;
  if (!refusal.empty()) return Error{ErrorKind::Invalid, 0, std::move(refusal)};
  Remembered remembered = with_remembered(*parts_.world, file, given, found.moved);
  const SubmitContext& context = remembered.context;
  Result<SubmitPlan> plan = plan_checked(file, context, found.moved, lost);
  if (!plan) return with_plan_hint(std::move(plan).error(), file, context, parts_.gpus->any());
  if (!found.note.empty()) plan->reply.warnings.push_back(found.note);
  plan->reply.remembered = std::move(remembered.said);
  SubmitPreview out;
  if (context.engine == kSlurm) {
    PlannedJobs planned(*parts_.world, file, *plan, parts_.clock->now());
    Result<std::vector<ArraySnapshot>> arrays = preview_arrays(
        file, context,
        [&](std::size_t step, std::size_t row) { return planned.of_step(step)[row].becomes; },
        cluster_ ? cluster_->array_size().value_or(kUsualArraySize) : kUsualArraySize,
        parts_.program);
    if (!arrays) return std::move(arrays).error();
    out.arrays = *std::move(arrays);
    out.runs = planned.take_folders();
  } else {
    rehearse(file, context, *plan, out);
  }
  out.reply = std::move(plan->reply);
  return out;
}

/// What waits of other sweeps competes as it would.  A GPU's lane is free here until the look right
/// before a start says otherwise.
void Coordinator::rehearse(const SweepSpec& file, const SubmitContext& context,
                           const SubmitPlan& plan, SubmitPreview& out) const {
  PlannedJobs planned(*parts_.world, file, plan, parts_.clock->now());
  ReadyQueue queue = queue_;
  Capacity capacity = capacity_;
  parts_.gpus->fill(capacity);

  // The plan's version of this sweep takes the place of the one that is queued; with --add, that
  // of the rows which the file names, and the others compete as they would.
  const std::unordered_set<JobId> named = known_of(planned, file.steps.size());
  ready_.for_each([&](JobId id, const Standing& standing) {
    const Job& job = *parts_.world->job(id);
    const bool replaced = job.sweep == plan.sweep && (!plan.adds || named.contains(id));
    if (replaced) queue.erase(ready_job(job, standing));
  });
  const Sweep sweep = planned.as_sweep(plan.sweep, context);
  declare(sweep, queue, capacity);
  for (const auto& [name, value] : file.limits) capacity.limits[name].value = value;

  struct Origin {
    std::size_t step;
    std::size_t row;
  };
  std::unordered_map<JobId, Origin> origins;
  const bool is_large = file.runs.size() > kMostEstimatedRuns;
  for (std::size_t step = 0; step < file.steps.size(); ++step) {
    const bool once = file.steps[step].once;
    const Entries& entries = planned.of_step(step);
    const auto is_to_start = [](const auto& entry) { return entry.becomes == JobState::Queued; };
    std::int64_t left = std::count_if(entries.begin(), entries.end(), is_to_start);
    if (plan.adds) {
      const Sweep& known = *parts_.world->sweep(plan.sweep);
      const auto slot = static_cast<std::size_t>(planned.slot_of(step));
      left += queued_beside(*parts_.world, known.steps[slot], entries);
    }
    queue.set_left({plan.sweep, planned.slot_of(step)}, left);
    for (std::size_t row = 0; row < planned.of_step(step).size(); ++row) {
      const JobId id = planned.of_step(step)[row].id;
      if (!planned.ready(step, row) || acquiring_.contains(id)) continue;
      const Job* known = parts_.world->job(id);
      const bool is_queued = known != nullptr && known->state == JobState::Queued;
      queue.insert(
          {.id = id,
           .step = {plan.sweep, planned.slot_of(step)},
           .run = once ? -1 : planned.run_of(row),
           .expected_ns =
               expected_ns(file.steps[step], once ? nullptr : &file.runs[row],
                           once ? 0 : planned.run_of(row), known, is_large ? nullptr : &learnt_),
           .growths = is_queued ? growths_of(*known) : Growths{},
           .shape = once || is_large ? 0 : learnt_.gpu_shape(file.steps[step], &file.runs[row])});
      origins.emplace(id, Origin{step, row});
    }
  }

  capacity.now_ns = parts_.clock->now().boot_ns;
  while (std::optional<Choice> choice = choose(queue, capacity)) {
    queue.take(choice->job, choice->overtaken);
    capacity.occupy(choice->job.step, *queue.demand(choice->job.key()), choice->lane, choice->gpus,
                    "would be in use", expected_end_ns(capacity.now_ns, choice->job.expected_ns));
    const auto ours = origins.find(choice->job.id);
    if (ours == origins.end()) continue;
    const auto [step, row] = ours->second;
    StartSnapshot start{.step = file.steps[step].name, .lane = to_string(choice->lane)};
    if (!planned.of_step(step)[row].is_new) start.id = choice->job.id.value;
    if (!file.steps[step].once) start.run = planned.folder_of(row);
    out.starts.push_back(std::move(start));
  }
  out.waits = waits_of(file, plan, planned, queue, capacity);
  out.runs = planned.take_folders();
}

}  // namespace pergpu
