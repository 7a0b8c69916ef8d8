// A value of the tree as a parameter of a run: its JSON, exact to the digit and to the type, and
// its text as written where that is not what the JSON renders to.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "spec/tree/node.h"
#include "spec/tree/report.h"

namespace pergpu {

struct ParamValue {
  std::string json = {};
  std::string text = {};   // "1e-4" for 0.0001; empty: the JSON says it all
  std::string value = {};  // canonical JSON to the letter, where that differs: 1 for 1.0
  bool is_word = false;    // as Node::is_word

  /// What values of files are compared by: 1 and 1.0 are equal numbers.
  const std::string& compared() const { return value.empty() ? json : value; }
};

/// Canonical JSON (RFC 8785) but for numbers: integers keep all their digits, and a float has a
/// point or an exponent (1.0).  Reports what JSON cannot hold: inf and nan, NUL characters.
std::optional<ParamValue> param_value(Report& report, std::string_view name, const Node& node);

}  // namespace pergpu
