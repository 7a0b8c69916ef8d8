// The jobs of a sweep as people think of them: a row a run, with its steps and metrics.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/snapshot.h"
#include "view/model/metrics.h"

namespace pergpu::view {

using MetricsOfJobs = std::map<std::int64_t, Metrics>;                 // by job id
using TailsOfJobs = std::map<std::int64_t, std::vector<std::string>>;  // by job id: last log lines

struct RunRow {
  std::string name = {};
  std::int64_t index = -1;                              // -1: the once-steps
  std::map<std::string, const JobSnapshot*> jobs = {};  // by step
};

/// By index.  Jobs that were replaced by a newer version are left out.
std::vector<RunRow> run_rows(const std::vector<JobSnapshot>& jobs);

/// (step, name) of a metric; `step` is empty when the name is unambiguous.
struct MetricColumn {
  std::string step = {};
  std::string name = {};
  std::string title() const { return step.empty() ? name : step + "." + name; }
};

/// The union over all jobs, in order of first appearance.  A name that two steps report gets the
/// step in front, so that one does not hide the other.
std::vector<MetricColumn> metric_columns(const SweepSnapshot& sweep,
                                         const std::vector<JobSnapshot>& jobs,
                                         const MetricsOfJobs& metrics);

/// "" when the run has no such metric.
std::string metric_cell(const RunRow& row, const MetricColumn& column,
                        const MetricsOfJobs& metrics);

}  // namespace pergpu::view
