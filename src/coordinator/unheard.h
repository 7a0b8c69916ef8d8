// Attempts of a coordinator before this one whose keeper has not reported them yet.
#pragma once

#include "coordinator/coordinator.h"

namespace pergpu {

/// It has a record from the start, and was neither sent by this coordinator nor reported to it.
inline bool is_unheard(const LiveAttempt& live) { return !live.sent && !live.record_path.empty(); }

}  // namespace pergpu
