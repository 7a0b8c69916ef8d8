// How a job that the breaker holds is told from one that a person holds.
#pragma once

#include <string_view>

#include "job/job.h"

namespace pergpu {

/// What its reason begins with.
inline constexpr std::string_view kHeldByBreaker = "held by the breaker: ";

bool is_held_by_breaker(const Job& job);

}  // namespace pergpu
