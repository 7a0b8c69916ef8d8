// Which jobs may start as far as other jobs are concerned (`needs` of docs/sweep-file.md).  Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "state/world.h"

namespace pergpu {

enum class Readiness : std::uint8_t {
  Ready,
  Waits,
  Doomed,  // a need ended otherwise than done: the job is to be skipped
};

struct ReadinessVerdict {
  Readiness readiness = Readiness::Ready;
  std::string words = {};  // "waits for train (job 17)", "train (job 17) ended as failed"
};

/// A need without a scope between a per-run step and a once-step spans all runs.
Need::Scope effective_scope(const StepSpec& dependent, const Need& need, const StepSpec& needed);

/// REQUIRES: `job` is queued.
ReadinessVerdict readiness(const World& world, const Job& job);

/// Calls `visit` for each current job whose readiness may have changed because `job` did.
void visit_dependents(const World& world, const Job& job, const std::function<void(JobId)>& visit);

}  // namespace pergpu
