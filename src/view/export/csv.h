// `export --csv`: a row a job, by RFC 4180 (CRLF, quotes doubled), so that pandas, R and
// spreadsheets read it as it is.
#pragma once

#include <string>
#include <vector>

#include "view/model/history.h"

namespace pergpu::view {

/// One record with its CRLF.
std::string csv_record(const std::vector<std::string>& fields);

/// A header and a record for each job.  Its parameters are columns `params.NAME`, its newest
/// metrics `metrics.NAME`: the union over all jobs, in order of first appearance.  What a job has
/// not, and what is not known of it, is an empty field.
std::string jobs_csv(const std::vector<JobHistory>& jobs);

}  // namespace pergpu::view
