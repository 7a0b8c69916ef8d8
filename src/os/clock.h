// The only place that reads a clock.  Clock is one of the four seams: simulations bring their own.
#pragma once

#include <string>

#include "ids.h"

namespace pergpu::os {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() = 0;
};

class RealClock final : public Clock {
 public:
  Instant now() override;
};

/// /proc/sys/kernel/random/boot_id without the newline; "" when unreadable.
std::string boot_id();

}  // namespace pergpu::os
