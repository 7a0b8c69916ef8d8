// What follows an ended attempt: the policy of docs/jobs.md as one pure function.
#pragma once

#include "job/job.h"
#include "job/step.h"

namespace pergpu {

inline constexpr int kMaxUnchargedMoves = 5;
/// An attempt that ran at least this long before it asked to be started again got on with its work.
inline constexpr std::int64_t kProgressNs = std::int64_t{60} * 1'000'000'000;

/// Decides for `job` (live, its last attempt about to end with `outcome`).  Faults of the machine
/// (Lost, Hardware, Driver) and a job's own wish (Requeue) are not charged but capped at
/// kMaxUnchargedMoves, the wish only where the attempt ran (`ran_ns`) for less than kProgressNs: a
/// training may go on as often as it needs.  A fault is not repeated when the step says `rerun =
/// false`.  User errors and Cancelled are never retried.  A retry after too little memory has more
/// where the step says so
/// (`grow`), and is then made whatever `retries.on` says.  After too little memory of a shared GPU
/// the next attempt has twice the share, without using up a retry; with `gpus = "auto"` also after
/// more than it was given.  What had to wait for its folder is started again however often.  What
/// was cancelled stays so, however it ended.
Next decide_next(const Job& job, const StepSpec& step, const Outcome& outcome,
                 std::int64_t ran_ns = 0);

/// The end state of a class: Ok -> Done, Timeout -> Timeout, Lost/Unknown -> Lost,
/// Cancelled -> Cancelled, else Failed.
JobState end_state(OutcomeClass cls);

}  // namespace pergpu
