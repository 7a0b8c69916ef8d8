// Sweep files in all spellings: a file that is accepted says the same after it was written as TOML
// and read again, and after it travelled to the coordinator.
#pragma once

#include <string>

#include "fuzz.h"
#include "spec/schema/emit.h"
#include "spec/schema/load.h"
#include "spec/sweep/wire.h"

namespace pergpu::fuzz {

constexpr std::size_t kMostRunsCompared = 100'000;

/// Globs and rows of files would leave the input and walk this machine's folders.
inline bool names_other_files(std::string_view text) {
  return (text.find("glob") != text.npos || text.find("runs_from") != text.npos) &&
         text.find_first_of("/\\.") != text.npos;
}

inline void check_sweep(std::string_view text, SweepFormat format) {
  if (names_other_files(text)) return;
  ParsedSweep parsed = parse_sweep(std::string(text), format, "sweep.toml");
  bool failed = false;
  for (const Diagnostic& d : parsed.diagnostics)
    failed |= d.severity == Diagnostic::Severity::Error;
  check(parsed.sweep.has_value() != failed, "a sweep or an error, never both or none");
  if (!parsed.sweep) return;
  const SweepSpec& sweep = *parsed.sweep;
  // Ten million are allowed: three copies of them take longer and more memory than an input may.
  if (sweep.runs.size() > kMostRunsCompared) return;

  Result<SweepSpec> sent = sweep_from_wire(to_wire(sweep));
  check(static_cast<bool>(sent), "the coordinator understands a sweep");
  for (const RunSpec& run : sweep.runs) {
    Result<RunSpec> back = run_from_wire(to_wire(run));
    check(static_cast<bool>(back), "the coordinator understands a run");
    sent->runs.push_back(*std::move(back));
  }
  check(*sent == sweep, "a sweep arrives at the coordinator as it was sent");

  const Result<std::string> emitted = emit_toml(sweep);
  if (!emitted) return;  // TOML has no null
  const ParsedSweep again = parse_sweep(*emitted, SweepFormat::Toml, "sweep.toml");
  check(again.sweep.has_value(), "an emitted sweep file is accepted");
  check(*again.sweep == sweep, "an emitted sweep file says the same");
}

}  // namespace pergpu::fuzz
