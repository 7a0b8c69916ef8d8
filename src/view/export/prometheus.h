// What is known as text for Prometheus (exposition format 0.0.4): pergpu_jobs{state}, GPUs, and how
// long jobs waited and ran.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "api/snapshot.h"
#include "view/model/top_snapshot.h"

namespace pergpu::view {

/// A histogram of seconds.
class Durations {
 public:
  static constexpr std::array<double, 10> kBounds = {1,    10,    60,    300,   900,
                                                     3600, 10800, 21600, 43200, 86400};
  void add(double seconds);
  /// Lines `name_bucket{…}`, `name_sum`, `name_count`.
  std::string text(const std::string& name) const;

 private:
  std::array<std::int64_t, kBounds.size()> at_most_ = {};
  std::int64_t count_ = 0;
  double sum_ = 0;
};

/// Counts attempts from what is seen of jobs; begins with nothing, as counters do.
///
/// Each counts once at most.  Of a job that is seen for the first time, or again after it was
/// forgotten, what happened no later than anything that was forgotten may have been counted, and is
/// not: an attempt may be missed, none counts twice.
class AttemptTally {
 public:
  /// Attempts that started or ended before `since_ns` (wall clock) do not count.
  explicit AttemptTally(std::int64_t since_ns) : since_ns_(since_ns) {}

  /// `job` as it is now; to be called for every change that is seen.
  void see(const JobSnapshot& job);
  /// It is no longer reported; it may be again.
  void forget(std::int64_t job);

  std::string text() const;

 private:
  struct Last {
    std::int64_t started_at = 0;
    std::int64_t ended_at = 0;
  };
  std::int64_t since_ns_;
  std::map<std::int64_t, Last> last_;               // by job
  Last forgotten_ = {};                             // the newest instants of those forgotten
  std::map<std::string, std::int64_t> ended_ = {};  // by class
  Durations waited_ = {};
  Durations ran_ = {};
};

/// UTF-8, one sample a line.
std::string prometheus_text(const TopSnapshot& snapshot, const AttemptTally& tally);

}  // namespace pergpu::view
