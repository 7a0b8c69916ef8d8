// A sweep file on disk -> a validated sweep, or every mistake in it.
//
//   reader (read_toml, read_yaml, read_json) -> Node tree -> schema -> SweepSpec
//
// The spelling is chosen by the file's extension: .toml, .yaml or .yml, .json.  What comes on
// standard input is JSON where it begins with a brace, else TOML.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "spec/sweep/sweep.h"
#include "spec/tree/diagnostics.h"

namespace pergpu {

/// Either a sweep (and perhaps warnings) or at least one error: never both.
struct ParsedSweep {
  std::optional<SweepSpec> sweep = std::nullopt;
  std::vector<Diagnostic> diagnostics = {};
};

struct LoadOptions {
  /// -p NAME=VALUE: VALUE is read as a TOML value, else as a string.  A list becomes a [grid]
  /// entry, anything else a [constants] entry; what the file says of that parameter is replaced.
  std::vector<std::pair<std::string, std::string>> overrides = {};
  /// --out DIR: relative to the caller's folder.  Empty: what the file says.
  std::string out = {};
};

/// Files named in diagnostics are spelt as `path` is.  "-": standard input, which has no name, and
/// whose folder is the current one.
ParsedSweep load_sweep(const std::string& path, const LoadOptions& options = {});

enum class SweepFormat : unsigned char { Toml, Yaml, Json };

/// The same for a text in memory; `path` names it in diagnostics and gives the sweep's folder.
ParsedSweep parse_sweep(std::string text, SweepFormat format, const std::string& path,
                        const LoadOptions& options = {});

}  // namespace pergpu
