// A validated sweep: what `pergpu run FILE` and `pergpu run -- CMD ::: …` both produce, what
// travels to the coordinator and what the store keeps.  Nothing here is half-understood: a
// SweepSpec exists only when its file had no error.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "job/step.h"
#include "spec/sweep/notify.h"

namespace pergpu {

/// One configuration.  `json` identifies it: canonical JSON (RFC 8785) of its parameters.
/// `texts` is a JSON object with only those parameters whose text as written in the file differs
/// from what `json` renders to ({"lr":"1e-4"}); empty when there is none.
struct RunSpec {
  std::string json = "{}";
  std::string texts = {};
  bool operator==(const RunSpec&) const = default;
};

struct SweepSpec {
  std::string name = {};
  std::string out = {};                   // as written; empty: "runs".  Relative to `folder`
  std::string folder = {};                // absolute: the sweep file's folder, or the caller's cwd
  std::string file = {};                  // absolute path of the file; empty for the command line
  std::vector<StepSpec> steps = {};       // file order
  std::vector<RunSpec> runs = {};         // file order; the index of a *new* run is given at submit
  std::vector<std::string> columns = {};  // parameters that differ between runs, in file order
  std::vector<std::pair<std::string, int>> limits = {};  // [limits]
  std::vector<NotifySpec> notify = {};                   // [notify] or each [[notify]]
  bool operator==(const SweepSpec&) const = default;
};

}  // namespace pergpu
