// Which sweeps may hold a job: each has a range of numbers, and the ranges may overlap.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "ids.h"

namespace pergpu {

class JobRanges {
 public:
  void add(SweepId sweep, JobId first, JobId last) {
    // Sweeps come in the order of their first jobs, so this is the end.
    const auto place =
        std::ranges::upper_bound(ranges_, first, {}, [](const Range& r) { return r.first; });
    auto it = ranges_.insert(place, {.sweep = sweep, .first = first, .last = last, .reach = {}});
    for (; it != ranges_.end(); ++it) {
      const JobId before = it == ranges_.begin() ? JobId{} : (it - 1)->reach;
      it->reach = std::max(before, it->last);
    }
  }

  std::vector<SweepId> around(JobId job) const {
    std::vector<SweepId> found;
    auto it = std::ranges::upper_bound(ranges_, job, {}, [](const Range& r) { return r.first; });
    while (it != ranges_.begin() && (it - 1)->reach >= job) {
      --it;
      if (it->last >= job) found.push_back(it->sweep);
    }
    return found;
  }

 private:
  struct Range {
    SweepId sweep;
    JobId first;
    JobId last;
    JobId reach;  // the last job of this one and all before it
  };
  std::vector<Range> ranges_;  // by their first jobs
};

}  // namespace pergpu
