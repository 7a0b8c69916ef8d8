// A barrier ("train:all") is a matter of counts per step, so its dependents are looked at only when
// the counts decide something: never once per job of the other step.
#include "state/readiness.h"

#include <fmt/format.h>

namespace pergpu {
namespace {

std::string job_words(const World& world, JobId id) {
  const Job* job = world.job(id);
  return fmt::format("{} (job {})", world.step_of(*job).spec.name, id.value);
}

ReadinessVerdict one_need(const World& world, const Sweep& sweep, const Job& job,
                          const Need& need) {
  const Step& needed = sweep.steps[static_cast<std::size_t>(need.step)];
  switch (effective_scope(world.step_of(job).spec, need, needed.spec)) {
    case Need::Scope::SameRun: {
      const JobId id = World::current(sweep, need.step, needed.spec.once ? -1 : job.run);
      const Job* other = world.job(id);
      if (other == nullptr) return {Readiness::Waits, "waits for " + needed.spec.name};
      if (other->state == JobState::Done) return {};
      if (is_ended(other->state)) {
        return {Readiness::Doomed,
                fmt::format("{} ended as {}", job_words(world, id), to_string(other->state))};
      }
      if (other->state == JobState::Held) {
        return {Readiness::Waits, fmt::format("waits for {}, which is held", job_words(world, id))};
      }
      return {Readiness::Waits, "waits for " + job_words(world, id)};
    }
    case Need::Scope::All:
      if (needed.done == needed.total) return {};
      if (needed.ended > needed.done) {
        return {Readiness::Doomed,
                fmt::format("{} of {} jobs of step {} didn't succeed", needed.ended - needed.done,
                            needed.total, needed.spec.name)};
      }
      return {Readiness::Waits, fmt::format("waits for all of step {}: {} of {} are done",
                                            needed.spec.name, needed.done, needed.total)};
    case Need::Scope::Ended:
      if (needed.ended == needed.total) return {};
      return {Readiness::Waits, fmt::format("waits for the end of step {}: {} of {} have ended",
                                            needed.spec.name, needed.ended, needed.total)};
  }
  return {};
}

}  // namespace

Need::Scope effective_scope(const StepSpec& dependent, const Need& need, const StepSpec& needed) {
  if (need.scope == Need::Scope::SameRun && dependent.once && !needed.once) {
    return Need::Scope::All;
  }
  return need.scope;
}

ReadinessVerdict readiness(const World& world, const Job& job) {
  if (JobId old = world.replaces(job.id); old && is_live(world.job(old)->state)) {
    return {Readiness::Waits,
            fmt::format("waits for the earlier version of this job (job {}) to end", old.value)};
  }
  const Sweep& sweep = world.sweep_of(job);
  ReadinessVerdict first_wait;
  for (const Need& need : world.step_of(job).spec.needs) {
    ReadinessVerdict verdict = one_need(world, sweep, job, need);
    if (verdict.readiness == Readiness::Doomed) return verdict;
    if (verdict.readiness == Readiness::Waits && first_wait.readiness == Readiness::Ready) {
      first_wait = std::move(verdict);
    }
  }
  return first_wait;
}

void visit_dependents(const World& world, const Job& job, const std::function<void(JobId)>& visit) {
  if (JobId newer = world.replaced_by(job.id)) visit(newer);
  if (!world.is_current(job)) return;
  const Sweep& sweep = world.sweep_of(job);
  const Step& needed = world.step_of(job);
  for (const Step& step : sweep.steps) {
    if (!step.listed) continue;
    for (const Need& need : step.spec.needs) {
      if (need.step != job.step) continue;
      const Need::Scope scope = effective_scope(step.spec, need, needed.spec);
      if (scope == Need::Scope::SameRun && !step.spec.once && job.run >= 0) {
        const std::size_t place = static_cast<std::size_t>(job.run);
        if (place < step.current.size() && step.current[place]) visit(step.current[place]);
        continue;
      }
      // The first that comes back closes a barrier that was open.
      const bool closes = !is_ended(job.state) && needed.ended == needed.total - 1;
      const bool decided = scope == Need::Scope::SameRun || needed.ended == needed.total ||
                           closes || (scope == Need::Scope::All && job.state != JobState::Done);
      if (!decided) continue;
      for (JobId id : step.current) {
        if (id) visit(id);
      }
    }
  }
}

}  // namespace pergpu
