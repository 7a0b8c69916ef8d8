// A step's own rules about the end of a log, and when two failures are the same one
// (docs/failures.md; the end of a log is read by job/end_of_log.h).  Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "job/outcome.h"

namespace pergpu {

/// Of a step's `failures`: a line that has `match` in it says that the attempt failed as `cls`.
struct FailureRule {
  std::string match = {};
  OutcomeClass cls = OutcomeClass::Exit;
  bool operator==(const FailureRule&) const = default;
};

/// How much of a log's end is looked at.
inline constexpr std::size_t kLogTailBytes = 64 * 1024;

/// What a program meets that says cuda:3 where it has one GPU.
inline constexpr std::string_view kNotItsGpu =
    "asked for a GPU that is not its own: a job sees only its own GPUs, the first is always cuda:0";

/// What it meets whose step doesn't ask for a GPU: none is the default.
inline constexpr std::string_view kSeesNoGpu =
    "a job with gpus = 0 sees no GPU; gpus = 1 in its step, or --gpus 1, gives it one";

/// The last line that names an error of CUDA or of one of its libraries, of the last 60.
std::optional<std::string> find_cuda_error(std::string_view log_tail);

/// What two attempts that failed the same way have in common: the class, and the reason without
/// what differs from run to run.  Numbers, quoted parts, paths and the last word don't count; of a
/// KeyError, and of others whose message is a name, only the type does.
std::string signature_of(const Outcome& outcome);

/// The reason of a `user-error` without these values of its run, for Outcome::mistake; "": they
/// make no difference to its signature.
std::string mistake_without(const std::vector<std::string>& values, const Outcome& outcome);

}  // namespace pergpu
