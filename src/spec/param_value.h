// A value of the tree as a parameter of a run: its canonical JSON, and its text as written where
// that is not what the JSON renders to.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "spec/node.h"
#include "spec/report.h"

namespace pergpu {

struct ParamValue {
  std::string json = {};
  std::string text = {};  // "1e-4" for 0.0001; empty when the JSON says it all
};

/// Reports what JSON cannot hold exactly: integers beyond 2^53, inf and nan, NUL characters.
std::optional<ParamValue> param_value(Report& report, std::string_view name, const Node& node);

}  // namespace pergpu
