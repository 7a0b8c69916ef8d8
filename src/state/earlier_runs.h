// Rows that an earlier version read otherwise (spec/sweep/earlier_reading.h): 1.0 as 1, the
// word 3.10 as 3.1.  What was done under that reading is known again at the next submit.  Pure.
#pragma once

#include "api/snapshot.h"
#include "spec/sweep/sweep.h"
#include "state/world.h"

namespace pergpu {

/// Rows of `file` of which this sweep has done jobs, or live ones, under their earlier reading
/// become what is known of them.  All others are read as they are written now.
void recognize_earlier_runs(const World& world, const SubmitContext& context, SweepSpec& file);

}  // namespace pergpu
