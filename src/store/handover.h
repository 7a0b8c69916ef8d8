// What a coordinator hands over to a cluster in one array of tasks: the jobs, and what the nodes
// need to run them as it would have.  A file on the shared file system, written once.
//
// Lines of JSON: a head with the sweep, a line for each run that the jobs are of, a line for each
// job.  Members can be added, never renamed; unknown ones are ignored.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "result.h"
#include "store/store.h"

namespace pergpu::store {

/// A job that has to be done before another one can run: its attempt.json in `out` shows it.
struct HandedNeed {
  JobId job = {};
  std::string out = {};  // absolute
  bool operator==(const HandedNeed&) const = default;
};

struct HandedJob {
  row::NewJob job = {};
  event::Folded state = {};            // what it was when it was handed over: queued
  std::int32_t task = 0;               // index in the array
  std::vector<HandedNeed> needs = {};  // those that were not done yet, beside the handover's
  bool operator==(const HandedJob& other) const;
};

struct Handover {
  std::string key = {};         // names it on the cluster, too; unique among all of the user
  std::string from = {};        // host and home of the coordinator that made it
  std::int32_t lanes = 1;       // jobs at once in a task
  std::int32_t jobs_each = 1;   // jobs in a task, at most
  std::int64_t at_wall_ns = 0;  // when it was made
  // The age at which a task has no time for a whole attempt any more; 0: not known.
  std::int64_t last_start_ms = 0;
  std::vector<HandedNeed> needs = {};  // of all of its jobs: what was not done yet behind a barrier
  std::string node = {};               // of an allocation that was there; "": the cluster chooses
  row::Sweep sweep = {};
  std::vector<row::Run> runs = {};  // those of the jobs; of a once-step all
  std::vector<HandedJob> jobs = {};
};

std::string to_text(const Handover& handover);
/// ErrorKind::Corrupt with the line's number.
Result<Handover> handover_of(std::string_view text);

/// Its name in the folder of the handover.
inline constexpr char kHandoverName[] = "handover.jsonl";

}  // namespace pergpu::store
