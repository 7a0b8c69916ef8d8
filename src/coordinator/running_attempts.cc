// A copy: a forecast outlives the turn in which it was asked for.
#include "coordinator/running_attempts.h"

namespace pergpu {

std::map<JobId, RunningAttempt> running_attempts(const std::map<JobId, LiveAttempt>& live) {
  std::map<JobId, RunningAttempt> out;
  for (const auto& [id, attempt] : live) {
    out.emplace(id, RunningAttempt{.id = attempt.id,
                                   .key = attempt.key,
                                   .demand = attempt.demand,
                                   .lane = attempt.lane,
                                   .gpus = attempt.gpus,
                                   .starting_up = attempt.starting_up,
                                   .has_ended = attempt.has_ended()});
  }
  return out;
}

}  // namespace pergpu
