// Timers as the deciding code sees them: so that a simulation can bring its own.
#pragma once

#include <cstdint>
#include <functional>

#include "duration.h"

namespace pergpu {

struct Timers {
  using Id = std::uint64_t;
  /// Runs `callback` once at `boot_ns` (CLOCK_BOOTTIME) or as soon after as possible.
  std::function<Id(std::int64_t boot_ns, std::function<void()> callback)> at;
  std::function<void(Id)> cancel;
};

}  // namespace pergpu
