// The Gantt chart of a report: a row a lane, a bar an attempt, as inline SVG.  Below a bar a strip
// shows how busy its GPU was, or on a lane without one how much of its share of the cores it used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "view/model/history.h"
#include "view/model/timeline.h"

namespace pergpu::view {

/// Steps are told apart by color, what failed by a hatch; each bar says in a tooltip what it is.
/// Bars that are too narrow to be seen apart are drawn as one, which says how many it stands for.
struct Gantt {
  const std::vector<JobHistory>& jobs;
  const Timeline& timeline;
  const std::vector<std::string>& steps;  // of the sweep, in order
  const std::vector<double>& shares;      // busy share of each row of the timeline
  std::int64_t utc_offset_s = 0;
};

/// "" when there is nothing to draw.
std::string gantt_svg(const Gantt& gantt);

/// What the colors mean, as HTML.
std::string gantt_legend(const Gantt& gantt);

}  // namespace pergpu::view
