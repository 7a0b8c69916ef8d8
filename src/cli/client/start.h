// Starting a coordinator in the background.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>

#include "cli/client/connection.h"
#include "cli/client/place.h"
#include "result.h"

namespace pergpu::cli {

/// Starts `<own executable> coordinator run` in its own session, its output in
/// <home>/coordinator.log, and connects to it (or to the one that another client started at the
/// same moment: a lock of theirs lets one win).  On failure the message has the log's last lines.
Result<Connection> start_coordinator(const Place& place, std::chrono::milliseconds deadline);

/// The same where one runs, whose place the new one takes.  `ask_to_leave` is called when that
/// waits for its lock.
struct Succession {
  pid_t predecessor = 0;
  std::function<void()> ask_to_leave = {};
};
Result<Connection> succeed_coordinator(const Place& place, std::chrono::milliseconds deadline,
                                       const Succession& succession);

/// Inside a job of this very home: a coordinator started here would be ended with the job.  The
/// job's own keeper starts one when there is none.
bool inside_a_job_of(const Place& place);

}  // namespace pergpu::cli
