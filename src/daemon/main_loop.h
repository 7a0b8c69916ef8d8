// The coordinator as a process: one per user and machine.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "daemon/task.h"

namespace pergpu {

struct CoordinatorOptions {
  std::string home;
  std::string run_dir;
  std::string locks = {};      // folder of the leases; "": the one for all users
  bool foreground = false;     // stay when idle (a service manager's child)
  bool was_asked_for = false;  // by a command: it starts although its home was stopped before
  pid_t succeeds = 0;          // this coordinator was asked to leave: its lock is waited for
  std::optional<TaskOptions> task = std::nullopt;  // it runs what was handed over, and no more
};

/// In its environment: the allocation of Slurm, of several nodes, whose nodes it uses.
inline constexpr char kAllocationName[] = "PERGPU_ALLOCATION";
/// … the GPUs of an allocation of one node: those that no driver reports are these.
inline constexpr char kAllocatedGpusName[] = "PERGPU_ALLOCATED_GPUS";

/// Runs until it is asked to stop or has had nothing to do for a minute.  0: left in order or
/// another coordinator is running; 3: could not start, and why is on stderr.  Of a task also 1: a
/// job of it is not done.
int coordinator_main(const CoordinatorOptions& options);

}  // namespace pergpu
