// Which attempt was where and when: the rows of the Gantt chart and of the trace.
//
// Invariant: bars of one row never overlap.  Attempts of one lane do not either, unless the wall
// clock was set back between them; what would overlap then gets a separate row, "gpu0 (2)".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "view/model/history.h"

namespace pergpu::view {

/// Wall-clock nanoseconds, [begin, end); `job` and `attempt` are indices into the histories.
struct Bar {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::size_t job = 0;
  std::size_t attempt = 0;
  bool is_first = true;  // an attempt with several GPUs has a bar on the lane of each
};

struct TimelineRow {
  std::string name = {};       // "gpu0"; "lane0 of thirteen" where lanes of several sweeps stand
  std::string pool = {};       // "gpu", "cpu", "lane"
  std::vector<Bar> bars = {};  // by begin
};

struct Timeline {
  std::int64_t begin_ns = 0;           // of the first bar
  std::int64_t end_ns = 0;             // of the last
  std::vector<TimelineRow> rows = {};  // GPUs first, then by number
  std::size_t left_out = 0;            // attempts whose lane, begin or end is not known any more
};

/// Attempts that live end now.
Timeline timeline_of(const std::vector<JobHistory>& jobs, std::int64_t now_ns);

}  // namespace pergpu::view
