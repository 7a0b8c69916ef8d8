// The words in which programs end, and what each of them comes to: one row per wording.  A new
// framework is a new row here, and a line of tests/data/failures (docs/failures.md lists all rows).
#pragma once

#include <span>
#include <string_view>

#include "job/outcome.h"

namespace pergpu {

/// What a row's words come to.
enum class Sign {
  GpuMemory,   // oom-gpu
  HostMemory,  // oom-host
  Hardware,    // hardware
  Driver,      // driver
  DiskFull,    // disk-full
  NoProcess,   // lost: the machine let it start no further process or thread
  WrongGpu,    // user-error: it names a GPU that the job does not have
  NoGpu,       // it sees none at all: user-error where its step asks for none, else exit
  Mistake,     // user-error within the first minute, else exit: of the program or of its call
  Outage,      // exit: the network, or a server, did not answer
  Shell,       // user-error with exit code 126 or 127: what was to be executed is not there
  Child,       // says only that another process failed, which said why above
  Reason,      // an error's last line: quoted, and its exit status decides
};

struct FailureRow {
  std::string_view words;
  Sign sign;
  std::string_view who;  // says so
  /// Others may write the words, too: a line that is no exception's has to look like an error.
  bool is_common = false;
};

/// Lines of any program.  In `words`: * is anything, # a number from 1 on, ^ at the front the
/// line's begin, $ at the end its end.  The first row that matches a line decides.
std::span<const FailureRow> text_rows();

/// Exceptions of Python, by their whole name; * is anything.
std::span<const FailureRow> exception_rows();

/// What shells, and programs that execute others, print before they exit with 126 or 127.
std::span<const FailureRow> shell_rows();

bool matches_text(std::string_view words, std::string_view line);
bool matches_name(std::string_view words, std::string_view name);

}  // namespace pergpu
