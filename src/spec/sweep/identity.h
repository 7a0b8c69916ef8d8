// The 128-bit identity of a job: two jobs with the same identity are the same work, so a `done` one
// is kept when its sweep is submitted again.
//
// XXH3-128 over length-prefixed fields, in canonical (big-endian) byte order.  Stable forever: the
// store keeps these bytes, so a change of the layout would repeat all finished jobs. Resources,
// limits, retries and priority are no part of it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "job/step.h"
#include "spec/sweep/sweep.h"

namespace pergpu {

using JobIdentity = std::array<std::uint8_t, 16>;

/// Of run (null: a once-step's job), step name, command, `cwd`, step `env`, `outputs` and the jobs
/// it needs.  The order of `needs` does not matter.  `all_runs` (identity_of_runs) is to be given
/// when uses_runs(step), else null.
JobIdentity job_identity(const StepSpec& step, const RunSpec* run, std::vector<JobIdentity> needs,
                         const JobIdentity* all_runs = nullptr);

/// One identity for many needed jobs ("train:all"), so that each of the jobs that need them does
/// not have to hash them all: pass it as one of `needs`.  The order does not matter.
JobIdentity combined_identity(std::vector<JobIdentity> jobs);

JobIdentity identity_of_runs(const std::vector<RunSpec>& runs);

}  // namespace pergpu
