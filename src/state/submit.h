// Submit: the difference between a sweep file and what is known of that sweep
// (docs/architecture.md).  Pure: the plan is rows to store and numbers to report; nothing changes
// until they are durable.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "api/snapshot.h"
#include "result.h"
#include "spec/sweep/sweep.h"
#include "state/world.h"
#include "store/store.h"

namespace pergpu {

/// Outputs of done jobs that are no longer there (state/lost_outputs.h).
struct LostOutputs {
  std::unordered_map<JobId, std::string> jobs = {};  // "/…/model.pt does not exist"
  std::string unseen = {};  // why some could not be looked at; "": all were
};

struct SubmitPlan {
  Batch rows = {};
  SubmitReply reply = {};
  SweepId sweep = {};
  bool is_new = false;  // nothing of this sweep was known
  bool adds = false;    // to a known one: of that only the jobs in `reply` may change
};

/// Absolute output root of a sweep: `out` relative to the sweep's folder.
std::string output_root(const SweepSpec& sweep);

/// `moved`: the known sweep that it is, whose results were moved to where the file says.
/// Invalid: the sweep cannot be submitted as it is, and why.
Result<SubmitPlan> plan_submit(const World& world, const SweepSpec& sweep,
                               const SubmitContext& context, Instant now, SweepId moved = {},
                               const LostOutputs& lost = {});

/// `context` with what was not given this time taken from the last submit of the sweep; `said`:
/// each of these options, as it would be typed.
struct Remembered {
  SubmitContext context = {};
  std::vector<std::string> said = {};
};
/// `moved`: the sweep it was before its folder moved.
Remembered with_remembered(const World& world, const SweepSpec& sweep, SubmitContext context,
                           SweepId moved = {});

/// The answer to a submit of this file that `sweep` has taken already.
SubmitReply repeated_reply(const Sweep& sweep, const SweepSpec& file);

}  // namespace pergpu
