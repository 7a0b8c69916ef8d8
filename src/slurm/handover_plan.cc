// Jobs of a step that wait for the same arrays in the same way are one group; a group is an array.
#include "slurm/handover_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "spec/sweep/wire.h"
#include "state/readiness.h"

namespace pergpu {
namespace {

/// How many records are looked at on the nodes for one barrier, at most.
constexpr std::int64_t kMostLooks = 1'000'000;

/// Behind which arrays, by kind of dependency.
struct Waits {
  std::set<std::int64_t> same_task = {};
  std::set<std::int64_t> done = {};
  std::set<std::int64_t> ended = {};
  auto operator<=>(const Waits&) const = default;

  void add(const Waits& other) {
    same_task.insert(other.same_task.begin(), other.same_task.end());
    done.insert(other.done.begin(), other.done.end());
    ended.insert(other.ended.begin(), other.ended.end());
  }
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

struct JobPlace {
  std::int32_t block = 0;  // which array: their length is limited
  std::int32_t task = 0;
};

JobPlace place_of(const Job& job, const StepSpec& step, std::int32_t array_size) {
  const std::int32_t number = job.run < 0 ? 0 : job.run / step.slurm.jobs_per_allocation;
  return {number / array_size, number % array_size};
}

/// What a job waits for, and what is looked at on its node.
struct Conditions {
  Waits waits = {};
  std::vector<store::HandedNeed> own = {};
  std::vector<store::HandedNeed> shared = {};  // by all of its step

  void add(const Conditions& other) {
    waits.add(other.waits);
    shared.insert(shared.end(), other.shared.begin(), other.shared.end());
  }
};

/// What jobs of a sweep wait for as things are now.  What a barrier means is found out once.
class Needs {
 public:
  Needs(const World& world, const Sweep& sweep, const ClusterSite& site)
      : world_(world), sweep_(sweep), site_(site) {}

  /// As a task of this number; nullopt: it has to stay here for now.
  std::optional<Conditions> of(const Job& job, std::int32_t task) {
    if (world_.replaced_by(job.id) || has_older_at_work(job.id)) return std::nullopt;
    const Step& mine = world_.step_of(job);
    Conditions out;
    for (const Need& need : mine.spec.needs) {
      const Step& needed = sweep_.steps[static_cast<std::size_t>(need.step)];
      switch (effective_scope(mine.spec, need, needed.spec)) {
        case Need::Scope::SameRun:
          if (!add_same_run(job, task, need.step, out)) return std::nullopt;
          break;
        case Need::Scope::All:
          if (needed.done == needed.total) break;
          if (takes_too_many_looks(mine, needed)) return std::nullopt;
          if (!add_barrier(need.step, true, out)) return std::nullopt;
          break;
        case Need::Scope::Ended:
          if (needed.ended == needed.total) break;
          if (!add_barrier(need.step, false, out)) return std::nullopt;
          break;
      }
    }
    return out;
  }

 private:
  /// In the job's folder, or it may begin to be.
  bool has_older_at_work(JobId id) const {
    for (JobId old = world_.replaces(id); old; old = world_.replaces(old)) {
      if (is_live(world_.job(old)->state) || (site_.is_handed && site_.is_handed(old))) return true;
    }
    return false;
  }

  static bool takes_too_many_looks(const Step& mine, const Step& needed) {
    return std::int64_t{mine.total - mine.ended} * (needed.total - needed.done) > kMostLooks;
  }

  bool add_same_run(const Job& job, std::int32_t task, int slot, Conditions& out) const {
    const bool once = sweep_.steps[static_cast<std::size_t>(slot)].spec.once;
    const JobId id = World::current(sweep_, slot, once ? -1 : job.run);
    const Job* needed = world_.job(id);
    if (needed == nullptr) return false;
    if (needed->state == JobState::Done) return true;
    const std::optional<HandedPlace> place = site_.place(id);
    if (!place) return false;
    const std::int32_t jobs_each = world_.step_of(job).spec.slurm.jobs_per_allocation;
    const bool is_beside = needed->run >= 0 && place->task == task && place->jobs_each == jobs_each;
    if (is_beside) {
      out.waits.same_task.insert(place->array);
    } else if (place->jobs_each == 1 && needed->run < 0) {
      out.waits.done.insert(place->array);
    } else {
      // Its task says nothing of this one job, or others' failures: the records show it.
      out.waits.ended.insert(place->array);
    }
    out.own.push_back(to_check(*needed, *place));
    return true;
  }

  bool add_barrier(int slot, bool must_be_done, Conditions& out) {
    const auto [it, is_new] = barriers_.try_emplace({slot, must_be_done});
    if (is_new) it->second = barrier(sweep_.steps[static_cast<std::size_t>(slot)], must_be_done);
    if (it->second) out.add(*it->second);
    return it->second.has_value();
  }

  /// nullopt: some of it is neither over nor handed over.
  std::optional<Conditions> barrier(const Step& needed, bool must_be_done) const {
    Conditions out;
    for (const JobId id : needed.current) {
      if (!id || !world_.is_listed(id)) continue;
      const Job& job = *world_.job(id);
      if (must_be_done ? job.state == JobState::Done : is_ended(job.state)) continue;
      const std::optional<HandedPlace> place = site_.place(id);
      if (!place) return std::nullopt;
      // The end of a task with several jobs says nothing of one of them.
      const bool tells = must_be_done && place->jobs_each == 1;
      (tells ? out.waits.done : out.waits.ended).insert(place->array);
      if (must_be_done) out.shared.push_back(to_check(job, *place));
    }
    return out;
  }

  store::HandedNeed to_check(const Job& needed, const HandedPlace& place) const {
    return {place.handed ? place.handed : needed.id, world_.out_of(needed)};
  }

  const World& world_;
  const Sweep& sweep_;
  const ClusterSite& site_;
  std::map<std::pair<int, bool>, std::optional<Conditions>> barriers_ = {};
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
                                  .folder = std::string(run.folder()),
                                  .json = std::string(run.json()),
                                  .texts = std::string(run.texts())});
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

/// Leaves the jobs of the first `most_tasks` tasks at most; 0: of all.
void shorten(std::vector<store::HandedJob>& jobs, int most_tasks) {
  std::set<std::int32_t> tasks;
  for (const store::HandedJob& job : jobs) tasks.insert(job.task);
  if (most_tasks <= 0 || std::cmp_less_equal(tasks.size(), most_tasks)) return;
  const std::int32_t end = *std::next(tasks.begin(), most_tasks);
  std::erase_if(jobs, [&](const store::HandedJob& job) { return job.task >= end; });
}

}  // namespace

std::optional<ArrayPlan> next_array(const World& world, const Sweep& sweep,
                                    const std::vector<JobId>& wanted, const ClusterSite& site) {
  using Group = std::tuple<int, std::int16_t, Growths, std::int32_t, Waits>;  // depth first
  struct Jobs {
    std::vector<store::HandedJob> jobs = {};
    std::vector<store::HandedNeed> needs = {};
  };
  std::map<Group, Jobs> groups;
  Needs needs(world, sweep, site);
  for (const JobId id : wanted) {
    const Job& job = *world.job(id);
    const JobPlace place = place_of(job, world.step_of(job).spec, site.array_size);
    std::optional<Conditions> found = needs.of(job, place.task);
    if (!found) continue;
    Jobs& group =
        groups[{depth_of(sweep, job.step), job.step, growths_of(job), place.block, found->waits}];
    group.jobs.push_back(handed_job(world, job, place.task, std::move(found->own)));
    group.needs = std::move(found->shared);
  }
  if (groups.empty()) return std::nullopt;
  auto& [group, members] = *groups.begin();
  auto [depth, slot, growths, block, waits] = group;
  const StepSpec& step = sweep.steps[static_cast<std::size_t>(slot)].spec;

  shorten(members.jobs, site.most_tasks);
  ArrayPlan plan = plan_of(world, sweep, slot, std::move(members.jobs));
  plan.handover.needs = std::move(members.needs);
  if (step.max_parallel) {
    // The cluster counts tasks, each of which runs several jobs at once.
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
                              const std::vector<JobId>& wanted,
                              std::function<bool(JobId)> is_handed) {
  ClusterSite nothing_behind;  // a need has to be done
  nothing_behind.place = [](JobId) { return std::optional<HandedPlace>(); };
  nothing_behind.is_handed = std::move(is_handed);
  Needs needs(world, sweep, nothing_behind);
  std::vector<std::tuple<int, int, JobId>> ready;
  for (const JobId id : wanted) {
    const Job& job = *world.job(id);
    if (!needs.of(job, 0)) continue;
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
