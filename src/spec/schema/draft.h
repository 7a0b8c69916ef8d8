// The sweep while it is being checked: what SweepSpec will hold, together with where everything
// stands in the file.  Internal to the schema_*.cc files, which run in this order:
//
//   schema.cc             the top level: which sections there are, name, out, limits
//   schema_steps.cc       [defaults] and [steps.*], one key at a time (step_keys.cc)
//   schema_runs.cc        [grid], [zip], [[runs]], runs_from, [constants], [[exclude]] -> RunTable
//   schema_references.cc  names that refer to other parts of the file: needs, cycles, uses
//   schema_templates.cc   placeholders
//   schema_sizes.cc       arguments that are too long to be executed
//   schema_unused.cc      parameters that no command uses
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "spec/runs/run_table.h"
#include "spec/schema/load.h"
#include "spec/sweep/sweep.h"
#include "spec/tree/node.h"
#include "spec/tree/report.h"
#include "spec/tree/typed.h"

namespace pergpu {

/// A template and what to call it in messages.
struct PlacedTemplate {
  std::string key = {};  // "command", "env.A"
  std::string text = {};
  Place at = {};
  bool from_defaults = false;
};

struct NeedDraft {
  std::string step = {};
  Need::Scope scope = Need::Scope::SameRun;
  Place at = {};
};

/// Of a path that should stay below a folder: "", "/a", "a/../../b".
bool leads_out(std::string_view path);

struct StepDraft {
  StepSpec spec = {};
  Place at = {};                            // of its name
  std::string where = {};                   // "[steps.train]"
  std::vector<std::string> keys = {};       // written in the step itself
  std::vector<std::string_view> read = {};  // the same by the names of today
  /// Names of today of keys whose values were reported, here or in [defaults]: what they were to be
  /// is unknown, so nothing else is wrong because of them.
  std::vector<std::string_view> refused = {};
  std::vector<PlacedTemplate> templates = {};
  std::vector<NeedDraft> needs = {};
  std::vector<PlacedText> uses = {};
  Place signal_at = {};  // of its value, as the next four; may stand in [defaults]
  Place gpu_memory_at = {};
  Place grow_at = {};
  Place snapshot_at = {};
  Place cwd_at = {};

  bool wrote(std::string_view key) const {
    for (const std::string& k : keys)
      if (k == key) return true;
    return false;
  }
  bool is_refused(std::string_view key) const {
    return std::ranges::find(refused, key) != refused.end();
  }
};

struct Draft {
  Report& report;
  std::string folder = {};        // absolute
  std::string shown_folder = {};  // as the user spelt it, for messages
  const LoadOptions& options;
  SweepSpec sweep = {};
  SlurmOptions slurm = {};  // [slurm]
  std::vector<StepDraft> steps = {};
  RunTable runs = {};
  bool runs_are_incomplete = false;  // what refers to a parameter must not be called unknown
  std::vector<Key> unmatched_overrides = {};  // -p names that were found nowhere so far
};

void read_steps(Draft& draft, const Node* defaults, const Node* steps, Place root_at);
void read_runs(Draft& draft, const Node& root);
void check_references(Draft& draft);
void check_templates(Draft& draft);
/// Refuses arguments and variables that are too long to be executed.
void check_start_sizes(Draft& draft);
/// Warns of parameters that differ between runs and that no command seems to use.
void check_unused_parameters(Draft& draft);
/// After expand(): durations that depend on parameters.
void check_rendered_durations(Draft& draft);

/// Reads one key of a step or of [defaults] into `step`; reports an unknown key.
void read_step_key(Draft& draft, StepDraft& step, const Key& key, const Node& value,
                   bool is_defaults);

}  // namespace pergpu
