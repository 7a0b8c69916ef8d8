// It is asked at every change, so what most often goes on is found first: a sweep with a live job.
#include "state/standstill.h"

#include <algorithm>

#include "state/readiness.h"

namespace pergpu {
namespace {

/// A barrier behind this step stays closed: a job of it, or of one that it needs, is held.
bool is_held_up(const Sweep& sweep, const Step& step) {
  const int held = step.in_state[static_cast<std::size_t>(JobState::Held)];
  if (held > step.held_by_breaker) return true;
  if (queued_of(step) + step.held_by_breaker == 0) return false;
  return std::any_of(step.spec.needs.begin(), step.spec.needs.end(), [&](const Need& need) {
    return is_held_up(sweep, sweep.steps[static_cast<std::size_t>(need.step)]);
  });
}

}  // namespace

bool waits_for_held(const World& world, const Job& job) {
  if (job.state != JobState::Queued && !is_held_by_breaker(job)) return false;
  const Sweep& sweep = world.sweep_of(job);
  const StepSpec& spec = world.step_of(job).spec;
  return std::any_of(spec.needs.begin(), spec.needs.end(), [&](const Need& need) {
    const Step& needed = sweep.steps[static_cast<std::size_t>(need.step)];
    if (effective_scope(spec, need, needed.spec) != Need::Scope::SameRun) {
      return is_held_up(sweep, needed);
    }
    const Job* other = world.job(World::current(sweep, need.step, needed.spec.once ? -1 : job.run));
    return other != nullptr && (is_held_for_good(*other) || waits_for_held(world, *other));
  });
}

bool stand_still(const World& world, const std::unordered_set<JobId>& open) {
  return !open.empty() && std::all_of(open.begin(), open.end(), [&](JobId id) {
    const Job& job = *world.job(id);
    const std::vector<Step>& steps = world.sweep_of(job).steps;
    const bool is_alive =
        std::any_of(steps.begin(), steps.end(), [](const Step& step) { return step.live > 0; });
    return !is_alive && waits_for_held(world, job);
  });
}

}  // namespace pergpu
