// What attempts and GPUs use, as clients get it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "api/request.h"
#include "api/snapshot.h"
#include "coordinator/coordinator.h"
#include "result.h"

namespace pergpu {

/// The newest reading of a live attempt.
void tell_usage(const Coordinator& coordinator, AttemptId attempt, JobSnapshot& to);
void tell_usage(const Coordinator& coordinator, GpuSnapshot& to);

/// {"readings","now":{measure: value},"mean":{},"most":{},"read_bytes","written_bytes","throttle"}
/// of the newest attempt; null: not known.  `now` is null when it is over.
nlohmann::json describe_usage(const Coordinator& coordinator, const Job& job);

/// {"jobs","duration_s","memory_bytes","gpu_memory_bytes"}; null: not known.
nlohmann::json describe_learnt(const Estimate& learnt);

/// The reply to op `usage`.  nullopt: nothing is read of it now.
std::optional<nlohmann::json> describe_series(const Coordinator& coordinator, AttemptId attempt,
                                              const Request& request);
/// The same of what was kept.  ErrorKind::Corrupt: it is damaged.
Result<nlohmann::json> describe_series(AttemptId attempt, const std::vector<row::Usage>& rows,
                                       const Request& request);

}  // namespace pergpu
