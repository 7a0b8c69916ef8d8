// What the jobs themselves wrote: the newest metrics and the last lines of their logs.  Of a job
// without a metrics file the scalars that it wrote for TensorBoard are its metrics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/snapshot.h"
#include "view/model/run_rows.h"

namespace pergpu::cli {

view::MetricsOfJobs read_metrics(const std::vector<JobSnapshot>& jobs);

struct NewestMetrics {
  view::Metrics metrics = {};
  std::string path = {};        // of the file; "": there are none
  std::int64_t written_at = 0;  // wall-clock nanoseconds of its last change
};
/// Exact values (view/model/metrics.h); none of a job that waits, was never started or was
/// replaced.
NewestMetrics read_exact_metrics(const JobSnapshot& job);

/// Adds to a job of op `show` its `last_metrics`, and in which file and when they were written.
void add_metrics(nlohmann::json& whole);

/// Of the failed jobs, at most `jobs_limit` of them, `lines` each.
view::TailsOfJobs read_tails(const std::vector<JobSnapshot>& jobs, std::size_t jobs_limit,
                             std::size_t lines);

/// The last line of the log of a job that failed with an exit code that nothing in its log explains
/// ("exit code 1"), shortened; "": it has none, or the reason says more.
std::string last_words_of(const JobSnapshot& job);

/// The newest line of the metrics file, else the last line of the log; "" when there is neither.
std::string newest_of(const JobSnapshot& job);

}  // namespace pergpu::cli
