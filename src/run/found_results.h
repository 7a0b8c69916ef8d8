// Results that lie in a sweep's folder, as their attempt.json tell it: whose they are, and which
// are finished.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ids.h"

namespace pergpu {

struct FoundResult {
  std::string folder = {};  // of the step
  AttemptId id = {};
  std::string home = {};   // "": not told
  std::string sweep = {};  // its name
  std::string state = {};  // "done", "running", …
};

/// Of `<folder>/<run>/<step>`, `most` at most, in the order of their names.  Blocks.
std::vector<FoundResult> find_results(const std::string& folder, std::size_t most);

}  // namespace pergpu
