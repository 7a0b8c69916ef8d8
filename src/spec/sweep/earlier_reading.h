// How versions up to 0.1.0 of November 2026 read values that are read otherwise now: 1.0 was 1, the
// word 3.10 was 3.1, True and null of the command line were strings.  What was done then is known
// by it.
#pragma once

#include "result.h"
#include "spec/sweep/sweep.h"

namespace pergpu {

/// The same row as it was read then; equal to `run` where nothing differs.  `of_words`: its strings
/// come from a command line, where quotes were no part of them.  Corrupt when `run` is damaged.
Result<RunSpec> earlier_reading(const RunSpec& run, bool of_words);

}  // namespace pergpu
