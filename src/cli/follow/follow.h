// Following a sweep to its end: the status view or lines, the keys, Ctrl-C, the final table.
#pragma once

#include <cstdint>
#include <string>

#include "cli/client/client.h"
#include "cli/command/command.h"

namespace pergpu::cli {

/// Until nothing of the sweep is queued or live.  What its jobs did since `since_ns` (wall clock)
/// is printed, so that none of those that ended before the first look is passed over.  Returns the
/// exit code: 0 all done, 1 some not, 130 after Ctrl-C, 129 and 143 by signal, 0 when `q` detached.
int follow_sweep(const Place& place, std::int64_t sweep_id, std::int64_t since_ns,
                 const Output& output);

/// The same for the one job of `run -- CMD`: its log goes to stdout, its exit code is ours.
int follow_single(const Place& place, std::int64_t sweep_id, const Output& output);

/// Where a log is taken up; the log of a later attempt is read from its beginning.
struct LogPosition {
  std::int64_t attempt = 0;
  std::int64_t offset = 0;
};
/// `logs -f`: one job's log from a position on, until the job has ended; its exit code.  Ctrl-C
/// only ends the looking.
int follow_log(const Place& place, std::int64_t job_id, LogPosition from, const Output& output);

}  // namespace pergpu::cli
