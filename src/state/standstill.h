// When nothing goes on by itself any more: all that is open is held, or waits for what is held.
// A client that watches an unattended sweep is to get to know that, not to wait forever.  What the
// circuit breaker holds goes on by itself.  Pure.
#pragma once

#include <unordered_set>

#include "state/world.h"

namespace pergpu {

/// Queued, or held by the breaker, and a job that it needs is held by a person, or waits for one
/// that is.
bool waits_for_held(const World& world, const Job& job);

/// None of these, which are neither ended nor held, runs, can start, or will be able to before a
/// person lets something go.  False where there are none.
bool stand_still(const World& world, const std::unordered_set<JobId>& open);

}  // namespace pergpu
