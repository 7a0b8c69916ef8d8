// When this coordinator began, by the boot clock.
#pragma once

#include <cstdint>

#include "gpu/pool/lane_use.h"

namespace pergpu {

/// LaneUse counts from there.  The lane is one that no attempt ever has.
inline std::int64_t began_ns(const LaneUse& use, std::int64_t now_ns) {
  return now_ns - use.of({.pool = LaneId::Pool::Sweep}, now_ns).all_ns;
}

}  // namespace pergpu
