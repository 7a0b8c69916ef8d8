// Rows that are added to a sweep beside those it has (`submit --add`): where that is well defined.
// Pure.
//
// A sweep keeps one definition of each step, so the rows that stay need the steps that they have;
// and no job may look at all runs, for it would have to be another one after each addition.
#pragma once

#include <string>
#include <vector>

#include "result.h"
#include "spec/sweep/sweep.h"
#include "state/world.h"

namespace pergpu {

/// Why no sweep of this file can grow; Invalid names the step.
Result<void> check_growth(const SweepSpec& file);
/// The same, and whether it may add to this sweep.
Result<void> check_growth(const SweepSpec& file, const Sweep& known);

/// The parameters by which runs differ once the file's rows are added: those of the sweep, those of
/// the file, and those in which its rows differ from the sweep's.  Looks at one row of each.
std::vector<std::string> columns_with(const Sweep& known, const SweepSpec& file);

}  // namespace pergpu
