// What this program writes on stdout, and what it does when stdout takes no more.
//
// Every command prints through print() (cli/term/messages.h), which comes here.  The first failure
// is reported on stderr at once; main() asks finish() for the exit code, so no command whose output
// was lost ends with 0.  A pipe whose reader has left ends the program by SIGPIPE, as usual.
#pragma once

#include <string_view>

namespace pergpu::cli {

/// Descriptors 0 to 2 that are closed get one that can't be used (/dev/null, the wrong way round).
/// Otherwise the first file or socket that is opened would become stdout.
/// REQUIRES: called before anything is opened.
void reserve_standard_streams();

class StandardOutput {
 public:
  /// Writes to `fd` (not owned).
  explicit StandardOutput(int fd) : fd_(fd) {}

  /// All of `data` was written.  False: not now or not before; the failure has been reported.
  /// Waits where `fd` is non-blocking and full.
  bool write(std::string_view data);
  /// From here on a reader that leaves doesn't end the program at once: `run` still waits for its
  /// job, `serve` still serves.  finish() ends it.
  void outlive_reader() { outlives_reader_ = true; }
  /// Closes it (some file systems report a full disk only then) and returns the exit code:
  /// `code`, or 1 where that is 0 and output was lost.
  int finish(int code);

 private:
  void failed(int error);

  int fd_;
  bool outlives_reader_ = false;
  bool has_written_ = false;
  int error_ = 0;  // the first one
};

/// The one of this process.
StandardOutput& standard_output();

}  // namespace pergpu::cli
