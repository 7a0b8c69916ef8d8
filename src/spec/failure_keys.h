// Keys that say what a failure is and what follows it: `retries`, `failures`.
#pragma once

#include <optional>
#include <vector>

#include "job/step.h"
#include "spec/typed.h"

namespace pergpu {

/// A number, or `{ max = 2, on = ["exit"], delay = "60s" }`.  nullopt: it is neither (reported).
std::optional<RetryPolicy> read_retry_policy(const Field& field);

/// `[{ match = "loss is nan", class = "user-error" }]`; what is wrong is reported and left out.
std::vector<FailureRule> read_failure_rules(const Field& field);

}  // namespace pergpu
