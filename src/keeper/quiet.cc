// The rules of quiet.h; "due" times are those of the awake clock.
#include "keeper/quiet.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace pergpu::keeper {
namespace {

constexpr std::int64_t kShortestPause = 20'000'000;

std::int64_t quarter(std::int64_t limit_ns) { return std::max(limit_ns / 4, kShortestPause); }

}  // namespace

QuietWatch::QuietWatch(std::int64_t idle_ns, std::int64_t stall_ns, const Moment& now,
                       const LogStamp& log, std::int64_t cpu_ns)
    : idle_ns_(idle_ns),
      stall_ns_(stall_ns),
      last_(now),
      log_(log),
      idle_due_ns_(now.awake_ns + idle_ns),
      stall_due_ns_(now.awake_ns + quarter(stall_ns)),
      cpu_seen_at_ns_(now.awake_ns),
      cpu_ns_(cpu_ns) {}

std::int64_t QuietWatch::next_time() const {
  std::int64_t due = std::numeric_limits<std::int64_t>::max();
  if (idle_ns_ > 0) due = std::min(due, idle_due_ns_);
  if (stall_ns_ > 0) due = std::min(due, stall_due_ns_);
  return last_.boot_ns + (due - last_.awake_ns);
}

bool QuietWatch::needs_cpu(const Moment& now) const {
  return stall_ns_ > 0 && now.awake_ns >= stall_due_ns_;
}

std::vector<QuietWatch::Found> QuietWatch::look(const Moment& now, const LogStamp& log,
                                                std::int64_t cpu_ns) {
  const bool looks_at_cpu = needs_cpu(now);
  const std::int64_t passed = std::max<std::int64_t>(now.awake_ns - last_.awake_ns, 0);
  if (log == log_) {
    silent_ns_ += passed;
  } else {
    // Where it was suspended in between, before the output or after it, is not known: taken off, so
    // that the silence is never overstated.
    const std::int64_t suspended = now.boot_ns - last_.boot_ns - passed;
    silent_ns_ = std::clamp<std::int64_t>(now.wall_ns - log.wall_ns - suspended, 0, passed);
    log_ = log;
  }
  last_ = now;

  std::vector<Found> found;
  if (idle_ns_ > 0 && now.awake_ns >= idle_due_ns_) {
    const bool is_passed = silent_ns_ >= idle_ns_;
    if (is_passed) found.push_back({.silent_ns = silent_ns_});
    idle_due_ns_ = now.awake_ns + (is_passed ? quarter(idle_ns_) : idle_ns_ - silent_ns_);
  }
  if (!looks_at_cpu) return found;
  const std::int64_t span = now.awake_ns - cpu_seen_at_ns_;
  // Less than before: a process has ended whose time was not counted.  Something happened.
  const std::int64_t used = std::abs(cpu_ns - cpu_ns_);
  const bool is_calm = used < span / 100 * kCalmPerCent;
  calm_ns_ = is_calm ? calm_ns_ + span : 0;
  calm_cpu_ns_ = is_calm ? calm_cpu_ns_ + used : 0;
  cpu_ns_ = cpu_ns;
  cpu_seen_at_ns_ = now.awake_ns;
  stall_due_ns_ = now.awake_ns + quarter(stall_ns_);
  if (calm_ns_ >= stall_ns_ && silent_ns_ >= stall_ns_) {
    found.push_back({.is_stall = true, .silent_ns = silent_ns_, .cpu_ns = calm_cpu_ns_});
  }
  return found;
}

}  // namespace pergpu::keeper
