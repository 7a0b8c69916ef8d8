// The parameters of one run as strings: how they appear in commands, folder names and environment.
//
// A text is what the file says when that differs from the value's own rendering (RunSpec::texts),
// else: strings as they are, everything else as its canonical JSON.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "result.h"
#include "spec/sweep/sweep.h"

namespace pergpu {

class RunParameters {
 public:
  RunParameters() = default;
  /// Corrupt when the run's JSON is not an object.
  static Result<RunParameters> parse(const RunSpec& run);

  /// Null when the run has no such parameter.
  const std::string* text(std::string_view name) const;
  /// Sorted by name (UTF-16 order, as in the JSON).
  const std::vector<std::pair<std::string, std::string>>& all() const { return texts_; }

 private:
  std::vector<std::pair<std::string, std::string>> texts_;
};

/// ("PERGPU_PARAM_LR", "1e-4") for each parameter; the names are upper case.
std::vector<std::pair<std::string, std::string>> param_env(const RunParameters& parameters);

/// "lr" -> "PERGPU_PARAM_LR".
std::string param_env_name(std::string_view parameter);

}  // namespace pergpu
