// How long a job is expected to take: of equals, the scheduler starts the longest first.  Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "forecast/learnt.h"
#include "state/world.h"

namespace pergpu {

/// In ns, 0: unknown.  What the step's `expect` says; without one, what the job took when it was
/// done; if it never was, what was learned of jobs like it (`learnt` null: nothing was).
std::int64_t expected_ns(const World& world, const Job& job, const Learnt* learnt = nullptr);
/// The same before a submit is taken.  `run` (row `index` of the sweep) is null for a once-step's
/// job, `job` for a new one.
std::int64_t expected_ns(const StepSpec& step, const RunSpec* run, std::int64_t index,
                         const Job* job, const Learnt* learnt = nullptr);

/// Jobs of a sweep are looked at one by one up to here; those of a larger one share what was
/// learned of the step.
inline constexpr std::size_t kMostEstimatedRuns = 10'000;
/// In ns; 0: nothing is known.
std::int64_t ns_of(const std::optional<Estimate>& estimate);
/// What was learned of jobs like this one; nullopt: nothing.
std::optional<Estimate> learnt_of(const World& world, const Job& job, const Learnt& learnt);

/// What the jobs of the step that are done took on average; 0: none is, or none was measured.
std::int64_t learnt_ns(const Step& step);
/// The same, but those that have run for longer than that count too, with what they will have taken
/// (left_ns()): short ones are done first, and their average alone would be too low.
std::int64_t learnt_ns(const Step& step, const std::vector<std::int64_t>& elapsed_ns);
/// For people who look at one job: expected_ns(), where that is not known learnt_ns() of its step.
std::int64_t foreseen_ns(const World& world, const Job& job, const Learnt* learnt = nullptr);

/// What is left of one that has run for `elapsed_ns`.  One that should have ended takes as long
/// again as it is late, at most a tenth of what was expected.
std::int64_t left_ns(std::int64_t expected_ns, std::int64_t elapsed_ns);

}  // namespace pergpu
