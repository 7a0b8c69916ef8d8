// Lanes for attempts that run elsewhere.  A cluster has no lanes of a sweep's own, but a user who
// looks at its jobs wants to see how many ran at once: each attempt gets the first lane of its
// sweep that was free when it began.  Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace pergpu {

/// Of one sweep.  Instants are wall-clock nanoseconds.
class ClusterLanes {
 public:
  /// The first lane that was free since `begin_ns`; it is busy from now on.
  std::int32_t take(std::int64_t begin_ns);
  /// It is busy, or was until then.
  void occupy(std::int32_t lane);
  void leave(std::int32_t lane, std::int64_t end_ns);
  /// How many ran at once, at most.
  int count() const { return static_cast<int>(free_from_.size()); }

 private:
  static constexpr std::int64_t kBusy = std::numeric_limits<std::int64_t>::max();
  std::int64_t& at(std::int32_t lane);

  std::vector<std::int64_t> free_from_;
};

}  // namespace pergpu
