// The coordinator as a process: one per user and machine.
#pragma once

#include <string>

namespace pergpu {

struct CoordinatorOptions {
  std::string home;
  std::string run_dir;
  bool foreground = false;  // stay when idle (a service manager's child)
};

/// Runs until it is told to stop or has had nothing to do for a minute.  0: left in order or
/// another coordinator is running; 3: could not start, and why is on stderr.
int coordinator_main(const CoordinatorOptions& options);

}  // namespace pergpu
