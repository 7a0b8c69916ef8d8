// What stands at the end of a sweep: a row per run with its differing parameters, a cell per step
// with state and duration, its newest metrics; then each failed job with its log's path and last
// lines.  The files are read by the caller (cli/job_files/result_files.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/snapshot.h"
#include "view/model/run_rows.h"
#include "view/text/style.h"

namespace pergpu::view {

/// Jobs that were replaced by a newer version are left out.
std::string final_table(const SweepSnapshot& sweep, const std::vector<JobSnapshot>& jobs,
                        const MetricsOfJobs& metrics, const Style& style);

/// At most `limit` of them, then how many more there are.
std::string failures(const SweepSnapshot& sweep, const std::vector<JobSnapshot>& jobs,
                     const TailsOfJobs& tails, std::size_t limit, const Style& style);

/// "thirteen: 12 done, 1 failed", and what is to be known of the sweep: "; simulated (…)".
std::string sweep_text(const SweepSnapshot& sweep,
                       const std::map<std::string, std::int64_t>& counts, const Style& style);

/// The jobs that were done and left processes running, which were ended, at most `limit` of them;
/// "": there are none.
std::string left_running(const SweepSnapshot& sweep, const std::vector<JobSnapshot>& jobs,
                         std::size_t limit, const Style& style);

}  // namespace pergpu::view
