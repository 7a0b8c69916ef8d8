// `run --dry-run`: the table of runs and steps with their resources, and what would start where.
// Nothing is started, the coordinator included.
#pragma once

#include "cli/client/place.h"
#include "cli/submit/run_options.h"
#include "spec/sweep/sweep.h"

namespace pergpu::cli {

int dry_run(const Place& place, const SweepSpec& sweep, const RunOptions& options);

}  // namespace pergpu::cli
