// The only place that reads a clock.  Clock is one of the four seams: simulations bring their own.
#pragma once

#include <cstdint>
#include <optional>
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

/// CLOCK_BOOTTIME alone: what Loop::at() counts in.
std::int64_t boot_now_ns();

/// CLOCK_MONOTONIC: stands still while the machine is suspended.
std::int64_t awake_now_ns();

/// Whether something keeps the wall clock right (NTP); nullopt: the kernel does not say.
std::optional<bool> clock_is_synchronised();

/// What this process has taken of the processors so far.
std::int64_t own_cpu_ns();

}  // namespace pergpu::os
