// Starting a coordinator in the background.
#pragma once

#include <chrono>

#include "cli/connection.h"
#include "cli/place.h"
#include "result.h"

namespace pergpu::cli {

/// Starts `<own executable> coordinator run` in a session of its own, its output in
/// <home>/coordinator.log, and connects to it (or to the one that another client started at the
/// same moment: a lock of theirs lets one win).  On failure the message has the log's last lines.
Result<Connection> start_coordinator(const Place& place, std::chrono::milliseconds deadline);

}  // namespace pergpu::cli
