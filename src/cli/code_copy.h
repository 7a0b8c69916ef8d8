// The code from which jobs of a step with `snapshot` run: a copy that is made at submit, so that an
// edit afterwards changes nothing for the jobs that wait.
//
// A copy lies at <output root>/<sweep>/_snapshot/<hash of what is in it>: the same code is copied
// once. It is on disk before it has that name.
#pragma once

#include "result.h"
#include "spec/sweep.h"

namespace pergpu::cli {

/// Sets StepSpec::copy of each step that wants one.
Result<void> copy_code(SweepSpec& sweep);

/// They are still there: a `clean` of the sweep's results may have come between copy and submit.
Result<void> find_copies(const SweepSpec& sweep);

/// What would be copied; ErrorKind::Invalid as copy_code().  For a submit that is only rehearsed.
Result<void> check_code(const SweepSpec& sweep);

}  // namespace pergpu::cli
