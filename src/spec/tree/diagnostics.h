// Mistakes in a sweep file, and how they look to people:
//
//   thirteen.toml:19:1: unknown key `max_paralel` in [steps.eval]; did you mean `max_parallel`?
//      19 | max_paralel = 1
//         | ^
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pergpu {

/// One mistake in a sweep file.
struct Diagnostic {
  enum class Severity : std::uint8_t { Error, Warning };
  Severity severity = Severity::Error;
  std::string file = {};
  int line = 0;    // from 1; 0: the whole file
  int column = 0;  // from 1, in code points
  std::string message =
      {};  // "unknown key `max_paralel` in [steps.eval]; did you mean `max_parallel`?"
  std::string source_line = {};  // the line itself
};

/// One mistake, with a newline at the end.  Control characters of the file are shown as `?`.
std::string to_text(const Diagnostic& d);
std::string to_text(const std::vector<Diagnostic>& all);
/// Sorted by file and position, each once.
void sort_diagnostics(std::vector<Diagnostic>& all);

}  // namespace pergpu
