// The end of a log as lines that programs meant to write: without colors, without what launchers
// and loggers put in front of each line, and each update of a progress bar as a line.  Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pergpu {

inline constexpr std::string_view kTracebackHeader = "Traceback (most recent call last)";

struct LogLine {
  std::string text = {};  // its indentation is kept: it is part of a traceback's form
  std::string tag =
      {};  // which of several processes wrote it: "[rank0]:", "(Worker pid=12)"; or empty
  bool operator==(const LogLine&) const = default;
};

/// Cleans `log_tail`.  Removed from the front of each line: tags of ranks and processes (torchrun,
/// srun -l, mpirun, Ray, vLLM, Docker Compose) and times (ISO 8601, syslog, glog, [12:00:00]).
std::vector<LogLine> log_lines(std::string_view log_tail);

/// `text` without escape sequences of terminals.
std::string without_escapes(std::string_view text);

/// What a line is to its reader, who looks for the words in which a program ended.
enum class LineKind {
  Blank,
  Detail,    // belongs to the line above: indented, a box, a stack frame
  Trailer,   // what launchers, loggers and shells add after a program has ended
  Progress,  // the program goes on: "epoch 3", "step 10/200"
  Plain,
};

LineKind kind_of(std::string_view text);

/// "Error in train (line 3)", below the message of MATLAB's that it belongs to.
bool is_matlab_frame(std::string_view text);

}  // namespace pergpu
