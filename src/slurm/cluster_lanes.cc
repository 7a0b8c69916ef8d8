// What ended on one node may be reported after what began on another: a lane is free from the end
// of its last attempt on, not from when that was heard.
#include "slurm/cluster_lanes.h"

#include <algorithm>

namespace pergpu {

std::int64_t& ClusterLanes::at(std::int32_t lane) {
  const auto index = static_cast<std::size_t>(std::max(lane, 0));
  if (free_from_.size() <= index) {
    free_from_.resize(index + 1, std::numeric_limits<std::int64_t>::min());
  }
  return free_from_[index];
}

std::int32_t ClusterLanes::take(std::int64_t begin_ns) {
  const auto free = std::find_if(free_from_.begin(), free_from_.end(),
                                 [&](std::int64_t from) { return from <= begin_ns; });
  const auto lane = static_cast<std::int32_t>(free - free_from_.begin());
  at(lane) = kBusy;
  return lane;
}

void ClusterLanes::occupy(std::int32_t lane) { at(lane) = kBusy; }

void ClusterLanes::leave(std::int32_t lane, std::int64_t end_ns) {
  std::int64_t& from = at(lane);
  from = from == kBusy ? end_ns : std::max(from, end_ns);
}

}  // namespace pergpu
