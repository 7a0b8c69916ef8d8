// Each job that runs once for the sweep is its own row, behind the runs, and has its step's
// name.
#include "view/model/run_rows.h"

#include <algorithm>
#include <utility>

namespace pergpu::view {

std::vector<RunRow> run_rows(const std::vector<JobSnapshot>& jobs) {
  std::map<std::int64_t, RunRow> by_index;
  std::vector<RunRow> once;
  for (const JobSnapshot& job : jobs) {
    if (job.replaced) continue;
    const bool is_once = !job.index;
    RunRow& row = is_once ? once.emplace_back() : by_index[*job.index];
    row.index = job.index.value_or(-1);
    row.name = is_once ? job.step : job.run;
    row.jobs[job.step] = &job;
  }
  std::vector<RunRow> rows;
  for (auto& [index, row] : by_index) rows.push_back(std::move(row));
  for (RunRow& row : once) rows.push_back(std::move(row));
  return rows;
}

std::vector<MetricColumn> metric_columns(const SweepSnapshot& sweep,
                                         const std::vector<JobSnapshot>& jobs,
                                         const MetricsOfJobs& metrics) {
  std::vector<std::pair<std::string, std::string>> seen;  // (step, name)
  for (const std::string& step : sweep.steps) {
    for (const JobSnapshot& job : jobs) {
      const auto found = metrics.find(job.id);
      if (job.step != step || job.replaced || found == metrics.end()) continue;
      for (const auto& metric : found->second) {
        std::pair<std::string, std::string> key(step, metric.first);
        if (std::find(seen.begin(), seen.end(), key) == seen.end()) seen.push_back(std::move(key));
      }
    }
  }
  std::vector<MetricColumn> columns;
  for (const auto& key : seen) {
    const auto same_name = [&](const auto& other) { return other.second == key.second; };
    const bool alone = std::count_if(seen.begin(), seen.end(), same_name) == 1;
    MetricColumn column;
    if (!alone) column.step = key.first;
    column.name = key.second;
    columns.push_back(std::move(column));
  }
  return columns;
}

std::string metric_cell(const RunRow& row, const MetricColumn& column,
                        const MetricsOfJobs& metrics) {
  for (const auto& [step, job] : row.jobs) {
    if (!column.step.empty() && column.step != step) continue;
    const auto found = metrics.find(job->id);
    if (found == metrics.end()) continue;
    for (const auto& [name, text] : found->second) {
      if (name == column.name) return text;
    }
  }
  return "";
}

}  // namespace pergpu::view
