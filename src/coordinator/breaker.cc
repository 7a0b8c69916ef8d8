// The breaker: when the first jobs of a step all fail by the same mistake, the rest would too. They
// are held until one of the step succeeds, or a person lets them go.  A step may have a million
// jobs: they are held, and let go, some in each turn, and none of them starts meanwhile.
#include "coordinator/breaker.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "coordinator/coordinator.h"
#include "job/failures.h"

namespace pergpu {
namespace {

constexpr std::size_t kJobsOfATurn = 512;
constexpr std::size_t kMostSignatures = 1000;  // of a step that fails in so many ways at once

}  // namespace

bool is_held_by_breaker(const Job& job) {
  return job.state == JobState::Held && job.reason.starts_with(kHeldByBreaker);
}

/// REQUIRES: its end was recorded just now.
void Coordinator::mind_breaker(const Job& job) {
  const StepKey key{job.sweep, job.step};
  const Step& step = parts_.world->step_of(job);
  const OutcomeClass cls = job.last->outcome->cls;
  if (cls == OutcomeClass::Ok && step.done == 1) return mend_breaker(key);
  const auto breaker = breakers_.find(key);
  const bool is_tripped = breaker != breakers_.end() && !breaker->second.reason.empty();
  if (is_tripped && job.state == JobState::Queued) {  // it would be tried again
    record(job.id, event::Held{breaker->second.reason});
  }
  if (cls == OutcomeClass::UserError && step.spec.breaker > 0 && step.done == 0) {
    count_mistake(job);
  }
}

void Coordinator::count_mistake(const Job& job) {
  const StepKey key{job.sweep, job.step};
  const Step& step = parts_.world->step_of(job);
  Breaker& breaker = breakers_[key];
  const std::string signature = signature_of(*job.last->outcome);
  if (breaker.mistakes.size() >= kMostSignatures) breaker.mistakes.clear();
  int& count = breaker.mistakes[signature];
  if (++count < step.spec.breaker) return;
  // Some of them may have been queued again since.
  const auto failed_alike = [&](JobId id) {
    const Job* other = parts_.world->job(id);
    return other != nullptr && other->state == JobState::Failed && other->last &&
           other->last->outcome && signature_of(*other->last->outcome) == signature;
  };
  count = static_cast<int>(std::count_if(step.current.begin(), step.current.end(), failed_alike));
  if (count < step.spec.breaker) return;
  breaker.reason = fmt::format(
      "{}{} jobs of step {} failed the same way and none has succeeded ({}); run the sweep again "
      "when that is mended, or `pergpu release` this job",
      kHeldByBreaker, count, step.spec.name, job.last->outcome->reason);
  for_each_of_step(key, [this, reason = breaker.reason](const Job& other) {
    if (other.state != JobState::Queued) return;
    record(other.id, event::Held{reason});
    refresh(other.id);
  });
}

void Coordinator::mend_breaker(StepKey key) {
  breakers_[key] = Breaker{.walk = breakers_[key].walk};
  for_each_of_step(key, [this](const Job& other) {
    if (!is_held_by_breaker(other)) return;
    record(other.id, event::Requeued{"a job of its step has succeeded"});
    refresh(other.id);
  });
}

/// A person has let jobs of the step go, or submitted it again.
void Coordinator::forget_breaker(StepKey key) {
  const auto it = breakers_.find(key);
  if (it == breakers_.end()) return;
  it->second = Breaker{.walk = it->second.walk};
  if (it->second.walk == 0) breakers_.erase(it);
}

void Coordinator::forget_breakers(SweepId sweep) {
  const std::size_t steps = parts_.world->sweep(sweep)->steps.size();
  for (std::size_t slot = 0; slot < steps; ++slot) {
    forget_breaker({sweep, static_cast<std::int16_t>(slot)});
  }
}

/// What the coordinator before had held, or was about to let go.
void Coordinator::recover_breakers() {
  std::set<StepKey> to_mend;
  parts_.world->open_jobs().for_each([&](JobId id) {
    const Job& job = *parts_.world->job(id);
    if (!is_held_by_breaker(job)) return;
    const StepKey key{job.sweep, job.step};
    breakers_[key].reason = job.reason;
    if (parts_.world->step_of(job).done > 0) to_mend.insert(key);
  });
  for (const StepKey key : to_mend) mend_breaker(key);
}

/// `act` for the step's current jobs: some now, the others in the next turns.  A later walk over
/// the same step takes the place of an earlier one.
void Coordinator::for_each_of_step(StepKey key, std::function<void(const Job&)> act) {
  Breaker& breaker = breakers_[key];
  if (breaker.walk != 0) --walks_;
  breaker.walk = ++last_walk_;
  ++walks_;
  queue_.pause(key, true);
  walk_on(key, breaker.walk, 0, std::move(act));
}

void Coordinator::walk_on(StepKey key, std::uint64_t walk, std::size_t from,
                          std::function<void(const Job&)> act) {
  Breaker& breaker = breakers_[key];
  if (breaker.walk != walk) return;
  const bool must_wait = frozen_ && frozen_ == key.sweep;
  const std::vector<JobId>& jobs =
      parts_.world->sweep(key.sweep)->steps[static_cast<std::size_t>(key.step)].current;
  const std::size_t end = must_wait ? from : std::min(from + kJobsOfATurn, jobs.size());
  for (std::size_t i = from; i < end; ++i) {
    if (const Job* job = parts_.world->job(jobs[i])) act(*job);
  }
  if (!must_wait && end == jobs.size()) {
    breaker.walk = 0;
    --walks_;
    queue_.pause(key, false);
    return;
  }
  const std::int64_t now = parts_.clock->now().boot_ns;
  parts_.timers->at(must_wait ? now + kMillisecond : now,
                    [this, key, walk, end, act = std::move(act)]() mutable {
                      walk_on(key, walk, end, std::move(act));
                    });
}

}  // namespace pergpu
