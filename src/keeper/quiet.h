// When an attempt has become quiet: no output (idle), or no output and hardly any CPU time (stall).
// Pure: what was seen is an argument, so is the time.
//
// Silence counts in time that the machine was awake.  When the last output came is read from the
// log's time stamp, corrected and bounded by when it was looked at, so a look is needed only when a
// limit may have been reached.  CPU time has no such stamp: it is looked at in every quarter of the
// stall limit, and each quarter must be calm.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace pergpu::keeper {

/// Below this part of one core, on average over a quarter of the limit, a tree counts as calm.
inline constexpr std::int64_t kCalmPerCent = 1;

/// One instant in three clocks.
struct Moment {
  std::int64_t awake_ns = 0;  // CLOCK_MONOTONIC: stands still while the machine is suspended
  std::int64_t boot_ns = 0;
  std::int64_t wall_ns = 0;
};

/// The log as fstat() sees it.
struct LogStamp {
  std::int64_t size = 0;
  std::int64_t wall_ns = 0;  // when it was last written to
  bool operator==(const LogStamp&) const = default;
};

class QuietWatch {
 public:
  /// Limits of 0 are not watched.
  QuietWatch(std::int64_t idle_ns, std::int64_t stall_ns, const Moment& now, const LogStamp& log,
             std::int64_t cpu_ns);

  /// When to look next, by the boot clock.  It may be early, after a suspend: then nothing is
  /// found.
  std::int64_t next_time() const;
  /// The next look will need the tree's CPU time.
  bool needs_cpu(const Moment& now) const;

  struct Found {
    bool is_stall = false;
    std::int64_t silent_ns = 0;
    std::int64_t cpu_ns = 0;  // is_stall: since it became calm
  };
  /// `cpu_ns` of the tree counts only if needs_cpu(now).  A limit that stays passed is found again
  /// after a quarter of it.
  std::vector<Found> look(const Moment& now, const LogStamp& log, std::int64_t cpu_ns);

 private:
  std::int64_t idle_ns_;
  std::int64_t stall_ns_;
  Moment last_;
  LogStamp log_;
  std::int64_t silent_ns_ = 0;
  std::int64_t idle_due_ns_ = 0;  // by the awake clock, as the next two

  std::int64_t stall_due_ns_ = 0;
  std::int64_t cpu_seen_at_ns_ = 0;
  std::int64_t cpu_ns_ = 0;
  std::int64_t calm_ns_ = 0;
  std::int64_t calm_cpu_ns_ = 0;
};

}  // namespace pergpu::keeper
