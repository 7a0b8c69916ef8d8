#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "coordinator/circuit_breaker.h"
#include "job/failures.h"

namespace pergpu {
namespace {

constexpr std::size_t kJobsOfATurn = 512;
constexpr std::size_t kMostSignatures = 1000;  // of a step that fails in so many ways at once

}  // namespace

void CircuitBreaker::on_ended(const Job& job) {
  const StepKey key{job.sweep, job.step};
  const Step& step = parts_.world->step_of(job);
  const OutcomeClass cls = job.last->outcome->cls;
  if (cls == OutcomeClass::Ok && step.done == 1) return close(key);
  const auto state = states_.find(key);
  const bool is_tripped = state != states_.end() && !state->second.reason.empty();
  if (is_tripped && job.state == JobState::Queued) {  // it would be tried again
    parts_.record(job.id, event::Held{state->second.reason, HoldCause::Breaker});
  }
  if (cls == OutcomeClass::UserError && step.spec.breaker > 0 && step.done == 0) {
    count_failure(job);
  }
}

void CircuitBreaker::count_failure(const Job& job) {
  const StepKey key{job.sweep, job.step};
  const Step& step = parts_.world->step_of(job);
  State& state = states_[key];
  const std::string signature = signature_of(*job.last->outcome);
  if (state.failures.size() >= kMostSignatures) state.failures.clear();
  int& count = state.failures[signature];
  if (++count < step.spec.breaker) return;
  // Some of them may have been queued again since.
  const auto failed_alike = [&](JobId id) {
    const Job* other = parts_.world->job(id);
    return other != nullptr && other->state == JobState::Failed && other->last &&
           other->last->outcome && signature_of(*other->last->outcome) == signature;
  };
  count = static_cast<int>(std::count_if(step.current.begin(), step.current.end(), failed_alike));
  if (count < step.spec.breaker) return;
  state.reason = fmt::format(
      "held by the breaker: {} jobs of step {} failed the same way and none has succeeded ({}); "
      "run the sweep again "
      "when that is mended, or `pergpu release` this job",
      count, step.spec.name, job.last->outcome->reason);
  scan_step(key, [this, reason = state.reason](const Job& other) {
    if (other.state != JobState::Queued) return;
    parts_.record(other.id, event::Held{reason, HoldCause::Breaker});
    parts_.refresh(other.id);
  });
}

void CircuitBreaker::close(StepKey key) {
  states_[key] = State{.scan = states_[key].scan};
  scan_step(key, [this](const Job& other) {
    if (!is_held_by_breaker(other)) return;
    parts_.record(other.id, event::Requeued{"a job of its step has succeeded"});
    parts_.refresh(other.id);
  });
}

void CircuitBreaker::reset(StepKey key) {
  const auto it = states_.find(key);
  if (it == states_.end()) return;
  it->second = State{.scan = it->second.scan};
  if (it->second.scan == 0) states_.erase(it);
}

void CircuitBreaker::reset(SweepId sweep) {
  const std::size_t steps = parts_.world->sweep(sweep)->steps.size();
  for (std::size_t slot = 0; slot < steps; ++slot) {
    reset({sweep, static_cast<std::int16_t>(slot)});
  }
}

void CircuitBreaker::recover() {
  std::set<StepKey> to_close;
  parts_.world->open_jobs().for_each([&](JobId id) {
    const Job& job = *parts_.world->job(id);
    if (!is_held_by_breaker(job)) return;
    const StepKey key{job.sweep, job.step};
    states_[key].reason = job.reason;
    if (parts_.world->step_of(job).done > 0) to_close.insert(key);
  });
  for (const StepKey key : to_close) close(key);
}

/// `visit` for the step's current jobs: some now, the others in the next turns.  A later scan of
/// the same step takes the place of an earlier one.
void CircuitBreaker::scan_step(StepKey key, Visit visit) {
  State& state = states_[key];
  if (state.scan != 0) --scans_;
  state.scan = ++last_scan_;
  ++scans_;
  parts_.pause(key, true);
  continue_scan(key, state.scan, 0, std::move(visit));
}

void CircuitBreaker::continue_scan(StepKey key, std::uint64_t scan, std::size_t from, Visit visit) {
  State& state = states_[key];
  if (state.scan != scan) return;
  const bool must_wait = parts_.is_frozen(key.sweep);
  const std::vector<JobId>& jobs =
      parts_.world->sweep(key.sweep)->steps[static_cast<std::size_t>(key.step)].current;
  const std::size_t end = must_wait ? from : std::min(from + kJobsOfATurn, jobs.size());
  for (std::size_t i = from; i < end; ++i) {
    if (const Job* job = parts_.world->job(jobs[i])) visit(*job);
  }
  if (!must_wait && end == jobs.size()) {
    state.scan = 0;
    --scans_;
    parts_.pause(key, false);
    return;
  }
  const std::int64_t now = parts_.clock->now().boot_ns;
  parts_.timers->at(must_wait ? now + kMillisecond : now,
                    [this, key, scan, end, visit = std::move(visit)]() mutable {
                      continue_scan(key, scan, end, std::move(visit));
                    });
}

}  // namespace pergpu
