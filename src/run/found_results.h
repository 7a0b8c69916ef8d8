// Results that lie in a sweep's folder, as their attempt.json has it: whose they are, and which
// are finished.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "ids.h"

namespace pergpu {

struct FoundResult {
  std::string folder = {};  // of the step
  AttemptId id = {};
  std::string home = {};   // "": not known
  std::string sweep = {};  // its name
  std::string state = {};  // "done", "running", …
};

/// Those of `<folder>/<run>/<step>`, some at a time, in the order of their names: a file server may
/// be slow.
class ResultSearch {
 public:
  explicit ResultSearch(std::string folder) : folder_(std::move(folder)) {}

  /// What the next `most` folders hold.  Blocks.
  std::vector<FoundResult> next(std::size_t most);
  /// All were looked at.
  bool is_over() const { return is_over_; }
  /// Why the folder could not be looked at; "": it could, or it is not there.
  const std::string& trouble() const { return trouble_; }

 private:
  void begin();

  std::string folder_;
  bool has_begun_ = false;
  bool is_over_ = false;
  std::string trouble_;
  std::vector<std::string> runs_;   // that are still to be looked at, the next one last
  std::string run_;                 // the folder of …
  std::vector<std::string> steps_;  // … these, likewise
};

}  // namespace pergpu
