// How mistakes in a sweep file look to people:
//
//   thirteen.toml:19:1: unknown key `max_paralel` in [steps.eval]; did you mean `max_parallel`?
//      19 | max_paralel = 1
//         | ^
#pragma once

#include <string>
#include <vector>

#include "spec/sweep.h"

namespace pergpu {

/// One mistake, with a newline at the end.  Control characters of the file are shown as `?`.
std::string to_text(const Diagnostic& d);
std::string to_text(const std::vector<Diagnostic>& all);
/// Sorted by file and position, each once.
void sort_diagnostics(std::vector<Diagnostic>& all);

}  // namespace pergpu
