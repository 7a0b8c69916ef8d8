// `pergpu report`: a sweep as one HTML page that opens from disk.  It refers to nothing outside of
// itself, is readable without JavaScript (which sorts tables, and no more), and holds its data
// twice: as tables and as JSON in <script id="pergpu-data">.
//
// A pure function of its argument: the caller gathers (cli/results/report.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "api/snapshot.h"
#include "view/model/history.h"
#include "view/model/run_rows.h"

namespace pergpu::view {

/// Of the machine on which the report is made, as it is then.
struct MachineFacts {
  std::string host = {};
  std::string system = {};   // "Linux 6.1.0-18-amd64 x86_64"
  std::string version = {};  // of pergpu
  int cores = 0;             // that jobs may use; 0: not known
  std::uint64_t memory_bytes = 0;
  std::vector<GpuSnapshot> gpus = {};
};

struct Report {
  SweepSnapshot sweep = {};
  std::string selector = {};  // not empty: what was asked for, where that is not the whole sweep
  std::vector<JobHistory> jobs = {};
  TailsOfJobs tails = {};  // of failed jobs: the last lines of their logs
  MachineFacts machine = {};
  std::int64_t now_ns = 0;  // wall clock
  std::int64_t utc_offset_s = 0;
  std::size_t without_series = 0;  // attempts whose series were not asked for
};

/// UTF-8.
std::string report_page(const Report& report);

}  // namespace pergpu::view
