// What the end of a log says about a failed attempt: the table of failures (docs/failures.md).
// Pure.
//
// The last line that a rule matches decides, because a program's last words name what ended it. The
// step's own rules come before those of pergpu.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

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

struct FoundFailure {
  OutcomeClass cls = OutcomeClass::Exit;
  std::string line = {};          // without control characters, at most 200 bytes
  std::string_view meaning = {};  // a literal: what it comes to, where the line does not say that
};

/// What a program meets that says cuda:3 where it has one GPU.
inline constexpr std::string_view kNotItsGpu =
    "asked for a GPU that is not its own: a job sees only its own GPUs, the first is always cuda:0";

/// `is_quick`: it ended within a minute.  A traceback of, say, a KeyError is then a mistake in the
/// program or in how it was called; after hours it may be anything.
std::optional<FoundFailure> find_failure(std::string_view log_tail,
                                         std::span<const FailureRule> own, bool is_quick);

/// The last line that names an error of CUDA or of one of its libraries, of the last 60.
std::optional<std::string> find_cuda_error(std::string_view log_tail);

/// What two attempts that failed the same way have in common: numbers, which name a run or a line,
/// do not count.
std::string signature_of(const Outcome& outcome);

}  // namespace pergpu
