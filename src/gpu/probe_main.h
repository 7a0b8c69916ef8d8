// The probe: body of the hidden subcommand `pergpu probe`, the only process that touches NVML.
#pragma once

namespace pergpu::gpu {

/// Reads requests from `in_fd` and writes replies to `out_fd` (gpu/probe_wire.h) until `in_fd`
/// ends. Dies with its parent.  Returns the exit code.
int probe_main(int in_fd, int out_fd);

}  // namespace pergpu::gpu
