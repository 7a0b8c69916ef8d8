// What the end of a log says about an attempt that failed.  Pure.
//
// Only the end counts.  A program that met an error, handled it and went on has not ended by it, so
// what stands above further words, or above "epoch 3", is not looked at.  Of Python's exceptions
// the last one of the last traceback decides.  A step's own rules come before all that, wherever
// their words stand.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "job/failure_table.h"
#include "job/failures.h"
#include "job/outcome.h"

namespace pergpu {

struct LogQuestion {
  std::string_view log_tail = {};
  std::span<const FailureRule> own = {};  // the step's `failures`
  bool is_quick = false;  // it ended within a minute: a KeyError is then a mistake in the program
                          // or in how it was called; after hours it may be anything
  std::optional<int> exit_code = std::nullopt;
  std::optional<int> signal = std::nullopt;
};

struct LogVerdict {
  std::optional<OutcomeClass> cls = std::nullopt;  // nullopt: its exit status decides
  std::string line = {};                           // to quote: no control characters, 200 bytes
  std::string_view meaning = {};    // a literal: what the line comes to, where it does not say that
  bool is_own = false;              // by a rule of the step
  const FailureRow* row = nullptr;  // of the table, which decided
};

std::optional<LogVerdict> read_end_of_log(const LogQuestion& question);

/// A line for people: trimmed, without control characters, at most 200 bytes.
std::string quotable(std::string_view line);

/// Nothing but what launchers and loggers add.
bool says_nothing(std::string_view log_tail);

}  // namespace pergpu
