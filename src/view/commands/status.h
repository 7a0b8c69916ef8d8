// The status view of a followed sweep: a headline with the counts and the expected end, a row per
// lane with its job, elapsed time and newest sign of life, and a line that says what the keys do.
// Elsewhere than on a terminal: one line per change of a job's state.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "api/snapshot.h"
#include "view/text/style.h"

namespace pergpu::view {

/// Everything that is known of a followed sweep.
struct Followed {
  SweepSnapshot sweep = {};
  std::map<std::int64_t, JobSnapshot> jobs = {};    // by id
  std::map<std::string, std::int64_t> counts = {};  // of `jobs`, by state: newer than the sweep's
  std::set<std::int64_t> live = {};                 // ids in `jobs`
  std::vector<LaneSnapshot> lanes = {};
  std::map<std::int64_t, std::string> newest = {};  // by job id: last log line or metrics
  std::int64_t sweep_at_ns = 0;                     // wall clock when `sweep` arrived
  std::string message = {};                         // what Ctrl-C did; "": the keys

  /// Puts `job` in the place of what was known of it.  A sweep may have a million jobs: drawing
  /// must not look at each.
  void take(JobSnapshot job);
};

/// Lines without '\n', each at most style.width columns, at most style.height - 1 of them.
std::vector<std::string> status_lines(const Followed& followed, std::int64_t now_ns,
                                      const Style& style);

/// "about 3m20s left (13:45:10)"; "" where the expected end is not known.
std::string expected_end(const Followed& followed, std::int64_t now_ns, const Style& style);

/// "thirteen: 6 done, 4 running, 16 queued, about 3m20s left (13:45:10)".
std::string headline(const Followed& followed, std::int64_t now_ns, const Style& style);

/// "13:00:05 17 thirteen/03-method=edm/train running on gpu1" and '\n'; "" when `after` is no
/// change of state worth a line.  `before` is null for a job that is seen for the first time: that
/// it ended is news where it was queued, or ended, since `since_ns` (wall clock).
std::string change_line(const JobSnapshot* before, const JobSnapshot& after, std::int64_t since_ns,
                        std::int64_t now_ns, const Style& style);

}  // namespace pergpu::view
