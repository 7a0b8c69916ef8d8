// How long a job is expected to take: of equals, the scheduler starts the longest first.  Pure.
#pragma once

#include <cstdint>

#include "coordinator/world.h"

namespace pergpu {

/// In ns, 0: unknown.  What the step's `expect` says; without one, what the job took when it was
/// done.
std::int64_t expected_ns(const World& world, const Job& job);
/// The same before a submit is taken.  `run` (row `index` of the sweep) is null for a once-step's
/// job, `job` for a new one.
std::int64_t expected_ns(const StepSpec& step, const RunSpec* run, std::int64_t index,
                         const Job* job);

}  // namespace pergpu
