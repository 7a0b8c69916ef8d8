// Who has which lane when: a row for each lane, time from left to right (a Gantt chart in text).
// Pure: the same bytes for the same chart and style.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "view/text/style.h"

namespace pergpu::view {

struct LaneChart {
  struct Bar {
    std::size_t lane = 0;  // place in `lanes`
    double start_s = 0;
    double end_s = 0;
    std::string label = {};  // left out where it does not fit
    bool is_other = false;   // not of what is asked about: in the background, without label
  };
  std::vector<std::string> lanes = {};
  std::vector<Bar> bars = {};  // of one lane in the order of their starts
  double total_s = 0;          // what the width stands for; bars are cut there
};

/// Lines with '\n': the lanes, then the times.  At most style.width columns, 100 where that is 0.
/// A bar ends in a mark and is at least one column wide; several in one column are one other mark.
std::string lane_chart(const LaneChart& chart, const Style& style);

}  // namespace pergpu::view
