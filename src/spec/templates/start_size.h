// What a job's start hands to the kernel, which takes 128 KiB in one argument or variable, and so
// much in all as the stack's limit allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "job/step.h"
#include "result.h"
#include "spec/sweep/sweep.h"
#include "spec/templates/placeholders.h"
#include "spec/templates/run_parameters.h"

namespace pergpu {

/// Longer values, and the longest where all of them together would be more than the second, are put
/// into the environment only where the step's command or shell text names the variable.
inline constexpr std::size_t kMostParamEnvBytes = 8'192;
inline constexpr std::size_t kMostParamEnvBytesInAll = 65'536;

/// As param_env(parameters), without values that are too long for a variable that was not asked
/// for.
std::vector<std::pair<std::string, std::string>> param_env(const RunParameters& parameters,
                                                           const StepSpec& step);

struct StartSize {
  std::size_t total = 0;       // arguments, and variables of the step and of parameters
  std::size_t longest = 0;     // of them
  std::string where = {};      // of the longest: "command", "shell", "env"
  std::string parameter = {};  // the longest of the run; "" where it has none
};

/// Folders are taken to be short.  Nothing is rendered: a file of a megabyte may ask for a
/// terabyte.
Result<StartSize> start_size(const StepSpec& step, const RunSpec& run);
/// Of a once-step; `runs_lines`: what {runs} is.
Result<StartSize> start_size_once(const StepSpec& step, const std::string& runs_lines);

/// `run` -1: of a once-step.
struct StartOfRun {
  std::int64_t run = -1;
  StartSize size = {};
};
/// Visits the one start of a once-step; of another step those of the first run, and of runs whose
/// parameters are long for what the step does with them, until `visit` returns false.
void visit_start_sizes(const StepSpec& step, const std::vector<RunSpec>& runs,
                       const std::function<bool(const StartOfRun&)>& visit);

/// What a start that has too long an argument or variable is refused with; "": it has none.
std::string why_too_long(const StartOfRun& start);

}  // namespace pergpu
