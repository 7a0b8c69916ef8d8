// What a job's start hands to the kernel, which takes 128 KiB in one argument or variable, and so
// much in all as the stack's limit allows.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "job/step.h"
#include "result.h"
#include "spec/run_parameters.h"
#include "spec/sweep.h"

namespace pergpu {

/// One argument or "NAME=value" (MAX_ARG_STRLEN less its terminator).
inline constexpr std::size_t kMostArgumentBytes = 131'071;

/// Longer values, and the longest where all of them together would be more than the second, are put
/// into the environment only where the step's command or shell text names the variable.
inline constexpr std::size_t kMostParamEnvBytes = 8'192;
inline constexpr std::size_t kMostParamEnvBytesInAll = 65'536;

/// As param_env(parameters), without values that are too long for a variable nobody asked for.
std::vector<std::pair<std::string, std::string>> param_env(const RunParameters& parameters,
                                                           const StepSpec& step);

struct StartSize {
  std::size_t total = 0;       // arguments, and variables of the step and of parameters
  std::size_t longest = 0;     // of them
  std::string where = {};      // of the longest: "command", "shell", "env"
  std::string parameter = {};  // the longest of the run; "" where it has none
};

/// Folders are taken to be short.
Result<StartSize> start_size(const StepSpec& step, const RunSpec& run);

/// Calls `visit` with the number of each run that may have a long parameter, and of the first;
/// stops when it returns false.
void visit_large_runs(const std::vector<RunSpec>& runs,
                      const std::function<bool(std::size_t)>& visit);

}  // namespace pergpu
