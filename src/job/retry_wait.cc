// The delay itself is not stored: it is what lies between the end of the attempt and the instant
// before which the job is not tried, both by the wall clock of that moment.
#include "job/retry_wait.h"

#include <algorithm>

namespace pergpu {

std::int64_t retry_wait_ns(const Job& job, Instant now, std::int64_t began_ns) {
  if (job.not_before_wall_ns == 0) return 0;
  const std::int64_t by_wall = std::max<std::int64_t>(job.not_before_wall_ns - now.wall_ns, 0);
  if (!job.last) return by_wall;
  const Instant ended = job.last->ended_at;
  const std::int64_t delay = std::max<std::int64_t>(job.not_before_wall_ns - ended.wall_ns, 0);
  const bool may_be_this_boot = ended.boot_ns <= now.boot_ns;
  const std::int64_t since = may_be_this_boot ? ended.boot_ns : began_ns;
  const std::int64_t by_boot = std::max<std::int64_t>(delay - (now.boot_ns - since), 0);
  const bool was_seen = may_be_this_boot && ended.boot_ns >= began_ns;
  return was_seen ? by_boot : std::min(by_wall, by_boot);
}

}  // namespace pergpu
