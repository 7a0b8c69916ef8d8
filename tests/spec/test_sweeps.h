// Short ways to parse sweeps in tests.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "spec/schema/load.h"
#include "spec/tree/diagnostics.h"

namespace pergpu {

inline ParsedSweep parse_toml(const std::string& text, const LoadOptions& options = {}) {
  return parse_sweep(text, SweepFormat::Toml, "t.toml", options);
}

inline SweepSpec good(ParsedSweep parsed) {
  EXPECT_TRUE(parsed.sweep.has_value()) << to_text(parsed.diagnostics);
  return parsed.sweep ? *std::move(parsed.sweep) : SweepSpec();
}

inline std::vector<std::string> jsons(const SweepSpec& sweep) {
  std::vector<std::string> out;
  for (const RunSpec& run : sweep.runs) out.push_back(run.json);
  return out;
}

/// "line:column message" of each diagnostic.
inline std::vector<std::string> mistakes(const ParsedSweep& parsed) {
  std::vector<std::string> out;
  for (const Diagnostic& d : parsed.diagnostics)
    out.push_back(std::to_string(d.line) + ":" + std::to_string(d.column) + " " + d.message);
  return out;
}

inline constexpr const char* kStep = "\n[steps.train]\ncommand = [\"true\"]\n";

}  // namespace pergpu
