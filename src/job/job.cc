// The state diagram: one function per event, each either refuses and touches nothing or changes the
// whole job.  Nothing else in pergpu assigns a job's state.
//
//   queued ─ starting ─► starting ─ started ─► running ─ stopping ─► stopping
//     ▲                      └───────────── ended ───┴───────────────────┘
//     │                                       │
//     ├── ended (again) ◄─────────────────────┴──► ended (final): done, failed, timeout, …
//     └── requeued ◄── held, every end state
//   queued, held: held (from queued), cancelled, skipped; done, where the job was done already and
//   a repeat of it is cancelled or skipped before it started.
//   folded: from a job that was only submitted to what it had become; kept consistent here, because
//   every other edge relies on it (a live job has an attempt, the attempt has the last number).
#include "job/job.h"

#include <fmt/format.h>

#include <limits>

#include "job/not_started.h"
#include "job/retry.h"

namespace pergpu {
namespace {

Error illegal(const Job& job, std::string_view event, std::string_view why = "") {
  return Error{ErrorKind::Invalid, 0,
               fmt::format("job {}: `{}` is not possible while {}{}{}", job.id.value, event,
                           to_string(job.state), why.empty() ? "" : ": ", why)};
}

bool has_no_history(const Job& job) {
  return job.state == JobState::Queued && job.attempts == 0 && !job.last && job.retries_used == 0 &&
         job.moves == 0 && job.memory_growths == 0 && job.gpu_memory_growths == 0 &&
         job.not_before_wall_ns == 0 && job.reason.empty() && !job.repeat_skipped;
}

/// A queued or held job that a person wants to be run again, although its newest attempt went well.
bool is_repeat(const Job& job) {
  return job.last && job.last->outcome && job.last->outcome->cls == OutcomeClass::Ok;
}

Result<void> folded(Job& job, const event::Folded& e) {
  if (!has_no_history(job)) return illegal(job, "folded", "it has a history");
  if (e.last.empty() != (e.attempts == 0) || e.last.size() > 1) {
    return illegal(job, "folded", "its newest attempt does not fit the number of its attempts");
  }
  if (!e.last.empty() && e.last.front().number != e.attempts) {
    return illegal(job, "folded", "its newest attempt has another number");
  }
  if (is_live(e.state) != (!e.last.empty() && !e.last.front().outcome)) {
    return illegal(job, "folded",
                   fmt::format("{} does not fit its newest attempt", to_string(e.state)));
  }
  job.state = e.state;
  job.hold_cause = e.hold_cause;
  job.attempts = e.attempts;
  job.retries_used = e.retries_used;
  job.moves = e.moves;
  job.memory_growths = e.memory_growths;
  job.gpu_memory_growths = e.gpu_memory_growths;
  job.queued_at = e.queued_at;
  job.not_before_wall_ns = e.not_before_wall_ns;
  job.reason = e.reason;
  job.repeat_skipped = e.repeat_skipped;
  if (!e.last.empty()) job.last = std::make_unique<Attempt>(e.last.front());
  return {};
}

/// A delay may be 250 years: what lies beyond the reach of nanoseconds is as late as they reach.
std::int64_t later(std::int64_t wall_ns, std::int64_t delay_ns) {
  std::int64_t sum = 0;
  const bool beyond = __builtin_add_overflow(wall_ns, delay_ns, &sum);
  return beyond ? std::numeric_limits<std::int64_t>::max() : sum;
}

Result<void> submitted(Job& job, Instant at) {
  const bool fresh =
      job.state == JobState::Queued && job.attempts == 0 && !job.last && job.queued_at == Instant{};
  if (!fresh) return illegal(job, "submitted", "it was submitted before");
  job.queued_at = at;
  return {};
}

Result<void> requeued(Job& job, const event::Requeued& e, Instant at) {
  if (is_live(job.state)) return illegal(job, "requeued");
  const bool was_held = job.state == JobState::Held;
  job.state = JobState::Queued;
  job.hold_cause = HoldCause::Other;
  job.reason.clear();
  if (e.keeps_retries && was_held) return {};
  job.retries_used = 0;
  job.moves = 0;
  job.memory_growths = 0;
  job.gpu_memory_growths = 0;
  job.queued_at = at;
  job.not_before_wall_ns = 0;
  job.repeat_skipped = false;
  return {};
}

Result<void> held(Job& job, const event::Held& e) {
  if (job.state != JobState::Queued) return illegal(job, "held");
  job.state = JobState::Held;
  job.hold_cause = e.cause;
  job.reason = e.reason;
  return {};
}

Result<void> starting(Job& job, const event::Starting& e, Instant at) {
  if (job.state != JobState::Queued) return illegal(job, "starting");
  if (job.attempts == std::numeric_limits<std::int16_t>::max()) {
    return illegal(job, "starting", "it has used up its attempt numbers");
  }
  if (e.attempt != job.attempts + 1) {
    return illegal(job, "starting",
                   fmt::format("attempt {} cannot follow attempt {}", e.attempt, job.attempts));
  }
  auto attempt = std::make_unique<Attempt>();
  attempt->number = e.attempt;
  attempt->placement = e.placement;
  attempt->keeper = e.keeper;
  attempt->starting_at = at;
  job.last = std::move(attempt);
  job.attempts = static_cast<std::int16_t>(e.attempt);
  job.not_before_wall_ns = 0;
  job.state = JobState::Starting;
  return {};
}

Result<void> started(Job& job, const event::Started& e, Instant at) {
  // A stop may be asked for before the start was reported.
  const bool stop_came_first = job.state == JobState::Stopping && job.last->started_at == Instant{};
  if (job.state != JobState::Starting && !stop_came_first) return illegal(job, "started");
  job.last->pid = e.pid;
  job.last->start_ticks = e.start_ticks;
  job.last->started_at = at;
  if (!stop_came_first) job.state = JobState::Running;
  return {};
}

// The first cause stays, because it is what ended the attempt; only a cancel outranks the others:
// a job that a person cancelled must not come back because its timeout allows a retry.
Result<void> stopping(Job& job, const event::Stopping& e, Instant at) {
  if (!is_live(job.state)) return illegal(job, "stopping");
  Attempt& attempt = *job.last;
  if (!attempt.stop || *attempt.stop == e.cause || e.cause == StopCause::Cancel) {
    attempt.stop = e.cause;
    attempt.stop_reason = e.reason;
  }
  if (attempt.stop_at == Instant{}) attempt.stop_at = at;
  attempt.stop_at_once = attempt.stop_at_once || e.at_once;
  job.state = JobState::Stopping;
  return {};
}

std::int8_t grown(std::int8_t growths, bool more) {
  return more && growths < std::numeric_limits<std::int8_t>::max()
             ? static_cast<std::int8_t>(growths + 1)
             : growths;
}

/// It worked for a while and asks to be started again: its moves so far led somewhere.
bool got_on(const Job& job, const event::Ended& e, Instant at) {
  const std::int64_t began_ns = job.last->started_at.wall_ns;
  return e.outcome.cls == OutcomeClass::Requeue && began_ns != 0 &&
         at.wall_ns - began_ns >= kProgressNs;
}

Result<void> ended(Job& job, const event::Ended& e, Instant at) {
  if (!is_live(job.state)) return illegal(job, "ended");
  const Next& next = e.next;
  if (next.kind == Next::Kind::Final && !is_ended(next.state)) {
    return illegal(job, "ended", fmt::format("{} is no end state", to_string(next.state)));
  }
  std::int16_t& spent = next.charged ? job.retries_used : job.moves;
  if (next.kind == Next::Kind::Again && spent == std::numeric_limits<std::int16_t>::max()) {
    return illegal(job, "ended", "it has used up its retry numbers");
  }
  job.last->outcome = e.outcome;
  job.last->ended_at = at;
  switch (next.kind) {
    case Next::Kind::Final:
      job.state = next.state;
      job.reason = next.reason.empty() ? e.outcome.reason : next.reason;
      break;
    case Next::Kind::Again:
      job.state = JobState::Queued;
      if (!has_not_begun(e.outcome)) ++spent;
      job.memory_growths = grown(job.memory_growths, next.more_memory);
      job.gpu_memory_growths = grown(job.gpu_memory_growths, next.more_gpu_memory);
      job.queued_at = at;
      job.not_before_wall_ns = next.delay_ns > 0 ? later(at.wall_ns, next.delay_ns) : 0;
      job.reason.clear();
      if (got_on(job, e, at)) job.moves = 0;
      break;
  }
  return {};
}

Result<void> ended_without_start(Job& job, std::string_view event, JobState state,
                                 const std::string& reason) {
  if (job.state != JobState::Queued && job.state != JobState::Held) return illegal(job, event);
  job.hold_cause = HoldCause::Other;
  job.not_before_wall_ns = 0;
  if (is_repeat(job)) {  // what was done, and its results, are as they were
    job.state = JobState::Done;
    job.reason = fmt::format("its repeat was {} before it started: {}", event, reason);
    job.repeat_skipped = state == JobState::Skipped;
    return {};
  }
  job.state = state;
  job.reason = reason;
  return {};
}

}  // namespace

bool operator==(const Job& a, const Job& b) {
  const bool same_last = a.last && b.last ? *a.last == *b.last : !a.last && !b.last;
  return same_last && a.id == b.id && a.sweep == b.sweep && a.run == b.run && a.step == b.step &&
         a.state == b.state && a.hold_cause == b.hold_cause && a.attempts == b.attempts &&
         a.retries_used == b.retries_used && a.moves == b.moves &&
         a.memory_growths == b.memory_growths && a.gpu_memory_growths == b.gpu_memory_growths &&
         a.queued_at == b.queued_at && a.not_before_wall_ns == b.not_before_wall_ns &&
         a.reason == b.reason && a.repeat_skipped == b.repeat_skipped;
}

bool is_held_by_breaker(const Job& job) {
  return job.state == JobState::Held && job.hold_cause == HoldCause::Breaker;
}

bool is_held_for_good(const Job& job) {
  return job.state == JobState::Held && job.hold_cause != HoldCause::Breaker;
}

std::string repeat_words(const Job& job) {
  const bool is_done = job.state == JobState::Done && job.last && job.last->outcome;
  return is_done && job.reason != job.last->outcome->reason ? job.reason : std::string();
}

std::int64_t took_ns(const Job& job) {
  if (!job.last || !job.last->outcome || job.last->outcome->cls != OutcomeClass::Ok) return 0;
  // Measured by one boot's clock.
  const std::int64_t began = job.last->started_at.boot_ns;
  const std::int64_t ended = job.last->ended_at.boot_ns;
  return began > 0 && ended > began ? ended - began : 0;
}

event::Folded fold(const Job& job) {
  event::Folded whole{.state = job.state,
                      .attempts = job.attempts,
                      .retries_used = job.retries_used,
                      .moves = job.moves,
                      .memory_growths = job.memory_growths,
                      .gpu_memory_growths = job.gpu_memory_growths,
                      .queued_at = job.queued_at,
                      .not_before_wall_ns = job.not_before_wall_ns,
                      .reason = job.reason,
                      .hold_cause = job.hold_cause,
                      .repeat_skipped = job.repeat_skipped};
  if (job.last) whole.last.push_back(*job.last);
  return whole;
}

Result<void> apply(Job& job, const JobEvent& e, Instant at) {
  return std::visit(
      Overloaded{[&](const event::Submitted&) { return submitted(job, at); },
                 [&](const event::Requeued& again) { return requeued(job, again, at); },
                 [&](const event::Held& held_event) { return held(job, held_event); },
                 [&](const event::Starting& intent) { return starting(job, intent, at); },
                 [&](const event::Started& report) { return started(job, report, at); },
                 [&](const event::Stopping& stop) { return stopping(job, stop, at); },
                 [&](const event::Ended& end) { return ended(job, end, at); },
                 [&](const event::Cancelled& cancel) {
                   return ended_without_start(job, "cancelled", JobState::Cancelled, cancel.reason);
                 },
                 [&](const event::Skipped& skip) {
                   return ended_without_start(job, "skipped", JobState::Skipped, skip.reason);
                 },
                 [&](const event::Folded& whole) { return folded(job, whole); }},
      e);
}

}  // namespace pergpu
