// The tables of a report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "view/charts/plot.h"
#include "view/model/efficiency.h"
#include "view/model/run_rows.h"
#include "view/report/report.h"

namespace pergpu::view {

/// The sweep run by run.
struct RunTable {
  std::vector<RunRow> rows = {};
  std::vector<PlotColumn> parameters = {};  // those that differ; texts by row
  std::vector<PlotColumn> metrics = {};
  Fields constants = {};  // parameters that all runs share
};
/// `jobs`: the snapshots of the report's jobs; the table points to them.
RunTable run_table(const Report& report, const std::vector<JobSnapshot>& jobs);

std::string runs_html(const Report& report, const RunTable& table);
std::string jobs_html(const Report& report);
std::string attempts_html(const Report& report);
std::string lanes_html(const Efficiency& efficiency);
std::string failures_html(const Report& report);
std::string gpus_html(const std::vector<GpuSnapshot>& gpus);

/// Seconds with milliseconds, "" where they are not known.
std::string seconds_text(const std::optional<double>& seconds);

}  // namespace pergpu::view
