// What `grow` makes of a job's limits after attempts that had too little memory.  Pure.
#pragma once

#include <compare>
#include <cstdint>

#include "job/outcome.h"
#include "job/step.h"

namespace pergpu {

struct Job;

/// What a factor of `grow` may be at most.
inline constexpr double kMostGrowth = 10;

/// How often a job was given more since a person last queued it.
struct Growths {
  std::int8_t memory = 0;
  std::int8_t gpu_memory = 0;
  auto operator<=>(const Growths&) const = default;
};
Growths growths_of(const Job& job);

/// Of which limit an attempt that ended as `cls` had too little.
bool lacked_memory(OutcomeClass cls);
bool lacked_gpu_memory(OutcomeClass cls);

/// Whether the step gives a next attempt more of it: `grow` names it, and it has a limit.
bool grows_memory(const StepSpec& step);
bool grows_gpu_memory(const StepSpec& step);

/// `declared` bytes, times `factor` for each growth, but no more than `most` (0: not known) where
/// `declared` is not more already.
std::uint64_t grown(std::uint64_t declared, double factor, int growths, std::uint64_t most);

}  // namespace pergpu
