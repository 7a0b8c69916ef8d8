// What became of a job's attempts: the records that lie beside its log.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/snapshot.h"

namespace pergpu::cli {

/// 2 of "17.2"; 0 when the selector names no attempt.
std::int64_t attempt_of(const std::string& selector);

/// What attempt.json said of that attempt at its end, or says while it lives; null when there is no
/// such record.
nlohmann::json attempt_record(const JobSnapshot& job, std::int64_t number);

/// Adds to a job of op `show` its `attempts`, and `argv` of the newest; `only` > 0: of that one.
void add_attempts(nlohmann::json& whole, std::int64_t only);

}  // namespace pergpu::cli
