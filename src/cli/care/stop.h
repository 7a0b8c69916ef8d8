// `pergpu coordinator stop`.
#pragma once

namespace pergpu::cli {

struct StopOptions {
  bool kill = false;     // its jobs end first
  bool as_json = false;  // one value on stdout
};
/// Returns when the coordinator's process is gone, and with `kill` its jobs, or says what is left.
int stop_coordinator(const StopOptions& options);

}  // namespace pergpu::cli
