// What the kernel takes at a program's start, with the limits of this shell.
#pragma once

#include "result.h"
#include "spec/sweep/sweep.h"

namespace pergpu::cli {

/// Invalid where a job's arguments and environment would be too much, and names step and parameter.
Result<void> check_exec_limits(const SweepSpec& sweep);

}  // namespace pergpu::cli
