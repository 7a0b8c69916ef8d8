// A job and the one function that changes its state.
//
// apply() is pure and is used by live operation and by replay alike, so a restart cannot disagree
// with what was running.  The coordinator decides, journals the event, then applies it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ids.h"
#include "job/event.h"
#include "job/outcome.h"
#include "job/state.h"
#include "result.h"

namespace pergpu {

/// Kept small: a sweep may have a million of these queued.  What all jobs of a step share is in
/// StepSpec, what all jobs of a run share is in the sweep's run table.
struct Job {
  JobId id = {};
  SweepId sweep = {};
  std::int32_t run = -1;  // row of the sweep's run table; -1: a once-step's job
  std::int16_t step = 0;
  JobState state = JobState::Queued;
  HoldCause hold_cause = HoldCause::Other;  // while it is held
  std::int16_t attempts = 0;                // how many were started, ever
  std::int16_t retries_used = 0;            // charged, since the last Requeued
  std::int16_t moves = 0;                   // uncharged, since the last Requeued
  std::int8_t memory_growths = 0;  // how often `grow` has given it more, since the last Requeued
  std::int8_t gpu_memory_growths = 0;
  bool repeat_skipped = false;          // done; a repeat comes when what it needs is queued again
  Instant queued_at = {};               // when it last became queued
  std::int64_t not_before_wall_ns = 0;  // 0: at once.  Wall clock, because it must survive a reboot
  std::string reason = {};  // why it is held, cancelled, skipped, …; empty while queued
  std::unique_ptr<Attempt> last = {};  // the newest attempt; null before the first start
};

bool operator==(const Job& a, const Job& b);

/// Held, and let go by the circuit breaker, sooner or later.
bool is_held_by_breaker(const Job& job);
/// Held, and only a person can let it go.
bool is_held_for_good(const Job& job);

/// Why the repeat of a done job never started: the job is done as before.  "": there was none.
std::string repeat_words(const Job& job);

/// How long its last attempt took, which ended well; 0: it did not, or that was not measured.
std::int64_t took_ns(const Job& job);

/// The event that makes `job` of one that was only submitted.
event::Folded fold(const Job& job);

/// Changes `job` as `e` says, or returns ErrorKind::Invalid and leaves it untouched when the edge
/// is not in the state diagram.
Result<void> apply(Job& job, const JobEvent& e, Instant at);

}  // namespace pergpu
