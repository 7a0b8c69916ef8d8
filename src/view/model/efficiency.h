// How well the lanes were used, computed from the times that were measured: busy shares, the
// makespan against a lower bound, CPU shares against cores.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "view/model/history.h"
#include "view/model/timeline.h"

namespace pergpu::view {

struct LaneUse {
  std::string lane = {};  // a row of the timeline
  std::size_t attempts = 0;
  double busy_s = 0;
  double share = 0;  // of the span
};

/// Lanes of one kind: a job cannot go from one kind to another.
struct PoolUse {
  std::string pool = {};  // "gpu", "cpu", "lane"
  std::size_t lanes = 0;  // that were used
  double work_s = 0;
};

/// Each attempt counts for as long as it lived: with its share of the cores, and with the cores
/// that it used on average.
struct CpuUse {
  int cores = 0;               // that the jobs have together; 0: not known
  double most_shares = 0;      // of the cores, promised at once
  double beyond_cores_s = 0;   // time in which more was promised than there is
  double most_used = 0;        // cores in use at once
  std::size_t over_share = 0;  // attempts that used more than their share
  std::size_t unknown = 0;     // attempts that live, or have no record
};

struct Efficiency {
  double span_s = 0;   // from the first begin to the last end
  double work_s = 0;   // of all attempts together
  double chain_s = 0;  // of the longest chain of jobs that need each other, all attempts
  double bound_s = 0;  // no schedule of these attempts on these lanes ends earlier
  std::vector<PoolUse> pools = {};
  std::vector<LaneUse> lanes = {};
  CpuUse cpu = {};
};

/// `timeline` is that of `jobs`.
Efficiency efficiency_of(const std::vector<JobHistory>& jobs, const Timeline& timeline, int cores);

}  // namespace pergpu::view
