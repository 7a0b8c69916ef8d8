// Small multiples: one little scatter plot for each metric against each parameter that differs, as
// inline SVG.
#pragma once

#include <string>
#include <vector>

namespace pergpu::view {

/// A parameter or a metric: its text for each run, "" where a run has none.
struct PlotColumn {
  std::string name = {};
  std::vector<std::string> texts = {};
};

/// Positions are by value where all texts of a column are numbers (on a logarithmic scale where
/// they are positive and span two decades or more), else one for each text.  Metrics without a
/// number are left out; "nan" and the infinities have no place and are counted below the plot.  ""
/// when there is nothing to plot.
std::string plots_html(const std::vector<PlotColumn>& parameters,
                       const std::vector<PlotColumn>& metrics,
                       const std::vector<std::string>& runs);

}  // namespace pergpu::view
