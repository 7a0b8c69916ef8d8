// Files of a command that are to go when a signal ends it.
#pragma once

#include <string>

namespace pergpu::cli {

/// For SIGINT, SIGTERM and SIGHUP, which then end the process as they would have.  Later ones than
/// the eighth stay.
void remove_when_interrupted(const std::string& path);

}  // namespace pergpu::cli
