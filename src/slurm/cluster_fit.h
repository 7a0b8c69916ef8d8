// What a sweep asks for that no cluster can be asked for.  Pure.
#pragma once

#include "result.h"
#include "spec/sweep/sweep.h"

namespace pergpu {

/// Invalid, with the step and what to write instead.  What fits is the cluster's to say.
Result<void> check_for_cluster(const SweepSpec& sweep);

}  // namespace pergpu
