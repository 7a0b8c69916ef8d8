// The breaker: when the first jobs of a step all fail by the same mistake, the rest would too. They
// are held until one of the step succeeds, or a person lets them go.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "coordinator/coordinator.h"
#include "job/failures.h"

namespace pergpu {
namespace {

constexpr std::string_view kHeldByBreaker = "held by the breaker: ";

}  // namespace

/// REQUIRES: its end was recorded just now.
void Coordinator::mind_breaker(const Job& job) {
  const Step& step = parts_.world->step_of(job);
  const OutcomeClass cls = job.last->outcome->cls;
  if (cls == OutcomeClass::Ok && step.done == 1) mend_breaker(job);
  if (cls == OutcomeClass::UserError && step.spec.breaker > 0 && step.done == 0) trip_breaker(job);
}

void Coordinator::trip_breaker(const Job& job) {
  const Step& step = parts_.world->step_of(job);
  const std::string signature = signature_of(*job.last->outcome);
  const auto failed_alike = [&](JobId id) {
    const Job* other = parts_.world->job(id);
    return other != nullptr && other->state == JobState::Failed && other->last &&
           other->last->outcome && signature_of(*other->last->outcome) == signature;
  };
  const auto alike = std::count_if(step.current.begin(), step.current.end(), failed_alike);
  if (alike < step.spec.breaker) return;
  const std::string reason = fmt::format(
      "{}{} jobs of step {} failed the same way and none has succeeded ({}); run the sweep again "
      "when that is mended, or `pergpu release` this job",
      kHeldByBreaker, alike, step.spec.name, job.last->outcome->reason);
  for (const JobId id : step.current) {
    const Job* other = parts_.world->job(id);
    if (other == nullptr || other->state != JobState::Queued) continue;
    record(id, event::Held{reason});
    refresh(id);
  }
}

void Coordinator::mend_breaker(const Job& job) {
  const Step& step = parts_.world->step_of(job);
  for (const JobId id : step.current) {
    const Job* other = parts_.world->job(id);
    const bool is_held = other != nullptr && other->state == JobState::Held &&
                         other->reason.starts_with(kHeldByBreaker);
    if (!is_held) continue;
    record(id, event::Requeued{fmt::format("job {} of its step has succeeded", job.id.value)});
    refresh(id);
  }
}

}  // namespace pergpu
