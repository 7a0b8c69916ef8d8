// Selectors (docs/commands.md): what people type to name jobs.
//
//   17            job 17              17.2      its second attempt
//   SWEEP         all its jobs        @  @2     the last sweep, the one before
//   SWEEP@14      sweep 14, where several have that name
//   SWEEP/RUN     one run, by folder name or index
//   SWEEP/RUN/STEP  with `*` anywhere; a once-step's job is SWEEP/_once/STEP or SWEEP/STEP
#pragma once

#include <map>
#include <string>
#include <vector>

#include "result.h"
#include "state/world.h"

namespace pergpu {

struct Selection {
  std::vector<JobId> jobs = {};        // ascending; current versions only, unless named by id
  std::vector<JobId> older = {};       // ascending; older versions of these that have not ended
  std::map<JobId, int> attempts = {};  // of those that were named as 17.2

  /// Both, ascending: what a person means who names a sweep.
  std::vector<JobId> all() const;
};

/// Whether this part of a selector may match several names.
bool is_pattern(const std::string& name);
/// NotFound: nothing matches.  Invalid: malformed or ambiguous; the message lists the candidates.
Result<Selection> select_jobs(const World& world, const std::string& selector);
/// What selects the sweep and no other: "thirteen", or "thirteen@14" where another one has that
/// name.
std::string selector_of(const World& world, const Sweep& sweep);
/// What selects the job: "thirteen/3/train", "thirteen/3" where the sweep has one step.
std::string selector_of(const World& world, const Job& job);
/// The sweep in memory that a whole name selects, as `select_jobs` reads it; null: none does.
const Sweep* sweep_called(const World& world, const std::string& name);
/// The archived sweeps that one of these may name: select_jobs() does not see them.
std::vector<SweepId> archived_by(const World& world, const std::vector<std::string>& selectors);
/// The sweep that `@`, `@2` … names, archived or not.
Result<SweepId> sweep_back(const World& world, const std::string& name);
/// Union of several; an empty list selects nothing.
Result<Selection> select_jobs(const World& world, const std::vector<std::string>& selectors);

/// What changes jobs, or waits for them, knows no attempt but the live one: Invalid for another.
Result<void> check_attempts(const World& world, const Selection& selection);

}  // namespace pergpu
