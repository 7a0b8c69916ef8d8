// The exceptions that Python printed at the end of a log, in all forms in which it, and those that
// print in its stead (rich, loguru, IPython, torchrun), do so.  Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "job/log_lines.h"

namespace pergpu {

/// How an exception came after the one that was printed before it.
enum class ChainLink {
  None,
  During,  // "During handling of the above exception, another exception occurred"
  Cause,   // "The above exception was the direct cause of the following exception"
};

struct PythonError {
  std::string name = {};  // "KeyError", "requests.exceptions.ConnectionError"
  std::string line = {};  // the name and the message's first line
  std::string tag = {};   // of the process that printed it
  std::size_t first = 0;  // of the lines: where its traceback begins …
  std::size_t last = 0;   // … and where `line` stands
  ChainLink link = ChainLink::None;
  bool is_aside = false;   // printed without ending the program: "Exception ignored in …"
  bool is_logged = false;  // below a line of a logger: the program has caught it
  std::vector<std::string> inner = {};  // of a group: the lines of what it holds

  bool operator==(const PythonError&) const = default;
};

/// In the order of their last lines.  REQUIRES: lines of log_lines().
std::vector<PythonError> python_errors(const std::vector<LogLine>& lines);

/// "KeyError" of "KeyError: 'los'"; empty: the line does not begin like an exception.
std::string_view exception_name(std::string_view line);

}  // namespace pergpu
