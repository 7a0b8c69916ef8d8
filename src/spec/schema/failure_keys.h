// Keys that say what a failure is and what follows it: `retries`, `failures`.
#pragma once

#include <optional>
#include <vector>

#include "job/step.h"
#include "spec/schema/known_key.h"
#include "spec/tree/typed.h"

namespace pergpu {

std::vector<KnownKey> retry_keys();
std::vector<KnownKey> failure_keys();
inline constexpr KeyType kRetryTable = takes::table(retry_keys);

/// A number of that type, or `{ max = 2, on = ["exit"], delay = "60s" }`.  nullopt: it is neither
/// (reported).
std::optional<RetryPolicy> read_retry_policy(const Field& field, const KeyType& type);

/// `[{ match = "loss is nan", class = "user-error" }]`; what is wrong is reported and left out.
std::vector<FailureRule> read_failure_rules(const Field& field);

}  // namespace pergpu
