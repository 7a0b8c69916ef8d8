// Jobs of a step that wait for the same arrays in the same way are one group; a group is an array.
#include "coordinator/handover_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "coordinator/readiness.h"
#include "spec/wire.h"

namespace pergpu {
namespace {

/// Behind which arrays, by kind of dependency.
struct Waits {
  std::set<std::int64_t> same_task = {};
  std::set<std::int64_t> done = {};
  std::set<std::int64_t> ended = {};
  auto operator<=>(const Waits&) const = default;

  std::string text() const {
    std::string out;
    const auto add = [&](const char* kind, const std::set<std::int64_t>& arrays) {
      if (arrays.empty()) return;
      out += (out.empty() ? "" : ",") + std::string(kind);
      for (const std::int64_t array : arrays) out += fmt::format(":{}", array);
    };
    add("aftercorr", same_task);
    add("afterok", done);
    add("afterany", ended);
    return out;
  }
};

struct Place {
  std::int32_t block = 0;  // arrays are so long at most
  std::int32_t task = 0;
};

Place place_of(const Job& job, const StepSpec& step, std::int32_t array_size) {
  const std::int32_t number = job.run < 0 ? 0 : job.run / step.slurm.jobs_per_allocation;
  return {number / array_size, number % array_size};
}

class Needs {
 public:
  Needs(const World& world, const Sweep& sweep, const Job& job, const ClusterSite& site,
        std::int32_t task)
      : world_(world), sweep_(sweep), job_(job), site_(site), task_(task) {}

  /// False: it has to stay here for now.
  bool find() {
    if (const JobId old = world_.replaces(job_.id); old && is_live(world_.job(old)->state)) {
      return false;
    }
    const StepSpec& step = world_.step_of(job_).spec;
    return std::all_of(step.needs.begin(), step.needs.end(), [&](const Need& need) {
      const Step& needed = sweep_.steps[static_cast<std::size_t>(need.step)];
      switch (effective_scope(step, need, needed.spec)) {
        case Need::Scope::SameRun:
          return one(World::current(sweep_, need.step, needed.spec.once ? -1 : job_.run), true);
        case Need::Scope::All:
          return all(needed, true);
        case Need::Scope::Ended:
          return all(needed, false);
      }
      return false;
    });
  }

  Waits waits = {};
  std::vector<store::HandedNeed> to_check = {};

 private:
  bool all(const Step& needed, bool must_be_done) {
    if ((must_be_done ? needed.done : needed.ended) == needed.total) return true;
    return std::all_of(needed.current.begin(), needed.current.end(), [&](JobId id) {
      if (!id || !world_.is_listed(id)) return true;
      if (must_be_done) return one(id, false);
      if (is_ended(world_.job(id)->state)) return true;
      const std::optional<HandedPlace> place = site_.place(id);
      if (place) waits.ended.insert(place->array);
      return place.has_value();
    });
  }

  bool one(JobId id, bool same_run) {
    const Job* needed = world_.job(id);
    if (needed == nullptr) return false;
    if (needed->state == JobState::Done) return true;
    const std::optional<HandedPlace> place = site_.place(id);
    if (!place) return false;
    const std::int32_t jobs_each = world_.step_of(job_).spec.slurm.jobs_per_allocation;
    const bool is_beside =
        same_run && needed->run >= 0 && place->task == task_ && place->jobs_each == jobs_each;
    if (is_beside) {
      waits.same_task.insert(place->array);
    } else if (place->jobs_each == 1 && (needed->run < 0 || !same_run)) {
      waits.done.insert(place->array);
    } else {
      // Its task says nothing of this one job, or others' failures: the records tell.
      waits.ended.insert(place->array);
    }
    to_check.push_back({place->handed ? place->handed : id, world_.out_of(*needed)});
    return true;
  }

  const World& world_;
  const Sweep& sweep_;
  const Job& job_;
  const ClusterSite& site_;
  std::int32_t task_;
};

/// Of a step, in the order in which steps need each other.
int depth_of(const Sweep& sweep, int slot) {
  int depth = 0;
  for (const Need& need : sweep.steps[static_cast<std::size_t>(slot)].spec.needs) {
    depth = std::max(depth, 1 + depth_of(sweep, need.step));
  }
  return depth;
}

/// On the node its needs are looked at by their records, and the cluster has seen to its resources.
row::Sweep handed_sweep(const Sweep& sweep, const std::string& step_name) {
  SweepSpec file = World::declared(sweep);
  file.notify.clear();
  for (StepSpec& step : file.steps) {
    if (step.name != step_name) continue;
    step.needs.clear();
    step.gpu.clear();  // the cluster calls it by another name than the driver
    step.overcommit = true;
  }
  return World::row_of(sweep, file, sweep.context);
}

/// What all handovers of jobs of a step have in common.
ArrayPlan plan_of(const World& world, const Sweep& sweep, std::int16_t slot,
                  std::vector<store::HandedJob> jobs) {
  const StepSpec& step = sweep.steps[static_cast<std::size_t>(slot)].spec;
  ArrayPlan plan{.step = {sweep.id, slot}, .growths = growths_of(*world.job(jobs.front().job.id))};
  std::sort(jobs.begin(), jobs.end(), [](const store::HandedJob& a, const store::HandedJob& b) {
    return a.job.id < b.job.id;
  });
  plan.handover.sweep = handed_sweep(sweep, step.name);
  std::set<std::int32_t> runs;
  for (const store::HandedJob& job : jobs) {
    plan.tasks.push_back(job.task);
    if (job.job.run >= 0) runs.insert(job.job.run);
  }
  std::sort(plan.tasks.begin(), plan.tasks.end());
  plan.tasks.erase(std::unique(plan.tasks.begin(), plan.tasks.end()), plan.tasks.end());
  for (std::int32_t index = 0; index < static_cast<std::int32_t>(sweep.runs.size()); ++index) {
    if (!step.once && !runs.contains(index)) continue;
    const Run& run = sweep.runs[static_cast<std::size_t>(index)];
    plan.handover.runs.push_back({.sweep = sweep.id,
                                  .index = index,
                                  .folder = run.folder,
                                  .json = run.spec.json,
                                  .texts = run.spec.texts});
  }
  plan.handover.jobs = std::move(jobs);
  return plan;
}

store::HandedJob handed_job(const World& world, const Job& job, std::int32_t task,
                            std::vector<store::HandedNeed> needs) {
  return {.job = {.id = job.id,
                  .sweep = job.sweep,
                  .run = job.run,
                  .step = job.step,
                  .step_name = world.step_of(job).spec.name,
                  .identity = world.identity(job.id),
                  .at = job.queued_at},
          .state = fold(job),
          .task = task,
          .needs = std::move(needs)};
}

}  // namespace

std::optional<ArrayPlan> next_array(const World& world, const Sweep& sweep,
                                    const std::vector<JobId>& wanted, const ClusterSite& site) {
  using Group = std::tuple<int, std::int16_t, Growths, std::int32_t, Waits>;  // depth first
  std::map<Group, std::vector<store::HandedJob>> groups;
  for (const JobId id : wanted) {
    const Job& job = *world.job(id);
    const Place place = place_of(job, world.step_of(job).spec, site.array_size);
    Needs needs(world, sweep, job, site, place.task);
    if (!needs.find()) continue;
    groups[{depth_of(sweep, job.step), job.step, growths_of(job), place.block, needs.waits}]
        .push_back(handed_job(world, job, place.task, std::move(needs.to_check)));
  }
  if (groups.empty()) return std::nullopt;
  auto& [group, jobs] = *groups.begin();
  auto [depth, slot, growths, block, waits] = group;
  const StepSpec& step = sweep.steps[static_cast<std::size_t>(slot)].spec;

  ArrayPlan plan = plan_of(world, sweep, slot, std::move(jobs));
  if (step.max_parallel) {
    // The cluster counts tasks, each of which runs so many jobs at once.
    plan.most_at_once =
        std::max(1, *step.max_parallel / std::min(step.slurm.lanes, *step.max_parallel));
    // The cluster counts within an array only.
    for (const std::int64_t array : site.arrays(plan.step)) waits.ended.insert(array);
  }
  plan.dependency = waits.text();
  plan.handover.lanes = step.slurm.lanes;
  plan.handover.jobs_each = step.slurm.jobs_per_allocation;
  return plan;
}

std::vector<JobId> ready_jobs(const World& world, const Sweep& sweep,
                              const std::vector<JobId>& wanted) {
  ClusterSite nothing_handed;
  nothing_handed.place = [](JobId) { return std::optional<HandedPlace>(); };
  std::vector<std::tuple<int, int, JobId>> ready;
  for (const JobId id : wanted) {
    const Job& job = *world.job(id);
    if (!Needs(world, sweep, job, nothing_handed, 0).find()) continue;
    ready.emplace_back(-world.step_of(job).spec.priority, depth_of(sweep, job.step), id);
  }
  std::sort(ready.begin(), ready.end());
  std::vector<JobId> out;
  for (const auto& [priority, depth, id] : ready) out.push_back(id);
  return out;
}

ArrayPlan plan_of_one(const World& world, const Sweep& sweep, JobId id, const std::string& node) {
  const Job& job = *world.job(id);
  ArrayPlan plan = plan_of(world, sweep, job.step, {handed_job(world, job, 0, {})});
  plan.handover.node = node;
  return plan;
}

}  // namespace pergpu
