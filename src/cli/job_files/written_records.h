// What `run` and `wait` wait for last: the records of the attempts that have just ended.
#pragma once

#include <vector>

#include "api/snapshot.h"

namespace pergpu::cli {

/// Keepers write an attempt's end into its attempt.json a moment after the coordinator has reported
/// it. Returns when those of the jobs that ended last are written, so that what reads or copies
/// results next finds them whole; after 2 s at the latest, for a full disk.
void await_records(std::vector<JobSnapshot> jobs);

}  // namespace pergpu::cli
