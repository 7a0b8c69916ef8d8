// The exit codes of docs/commands.md, and how an Error becomes one.
#pragma once

#include "result.h"

namespace pergpu::cli {

enum ExitCode : int {
  kOk = 0,           // everything asked for succeeded
  kSomeFailed = 1,   // some job did not, or only held jobs remain
  kUsage = 2,        // usage or sweep-file error: nothing was started
  kUnreachable = 3,  // no coordinator or engine
  kNothingMatched = 4,
  kTimedOut = 124,  // wait --timeout
  kHangUp = 129,
  kInterrupted = 130,
  kTerminated = 143,
};

inline int exit_code_of(const Error& error) {
  switch (error.kind) {
    case ErrorKind::Invalid:
      return kUsage;
    case ErrorKind::Unavailable:
    case ErrorKind::Corrupt:
    case ErrorKind::Denied:
    case ErrorKind::Full:
      return kUnreachable;
    case ErrorKind::NotFound:
      return kNothingMatched;
    case ErrorKind::Busy:
      return kTimedOut;
    case ErrorKind::Io:
      return kSomeFailed;
  }
  return kSomeFailed;
}

/// The inverse, for the code of a refusal by the coordinator.
inline ErrorKind kind_of_exit_code(int code) {
  if (code == kUsage) return ErrorKind::Invalid;
  if (code == kUnreachable) return ErrorKind::Unavailable;
  if (code == kNothingMatched) return ErrorKind::NotFound;
  return ErrorKind::Io;
}

}  // namespace pergpu::cli
