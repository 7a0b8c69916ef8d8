// How long a queued job still waits before it is tried again.  Pure.
#pragma once

#include <cstdint>

#include "job/job.h"

namespace pergpu {

/// 0: it does not wait.  By the boot clock for what ended since `began_ns` (boot clock), when the
/// caller's process began: a step of the wall clock changes nothing.  What ended before was read
/// from the store, maybe in another boot, where only the wall clock still counts: at most its whole
/// delay from `began_ns`.
std::int64_t retry_wait_ns(const Job& job, Instant now, std::int64_t began_ns);

}  // namespace pergpu
