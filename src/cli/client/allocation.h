// Where pergpu is started inside an allocation of Slurm: which GPUs of this machine are in it, or
// that it has several nodes, whose GPUs are found out by the coordinator.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "result.h"

namespace pergpu::cli {

struct Allocation {
  std::string job = {};                // Slurm's number of it
  std::vector<std::string> gpus = {};  // as CUDA_VISIBLE_DEVICES names them; of one node only
  int nodes = 1;
};

/// nullopt: this process is in none.  A step and a batch script get their GPUs by
/// CUDA_VISIBLE_DEVICES; a shell of `salloc` is not, and Slurm is asked (twice, for a minute at
/// most). Unavailable: Slurm does not answer.  Invalid: the allocation lies on another machine.
Result<std::optional<Allocation>> allocation_here();

/// How many nodes the allocation of this shell has, by its variables; 0: they do not show it, or it
/// is a step, which has the node that it was given.
int nodes_of_shell();

/// Whether the home inside an allocation is the allocation's own: none was named.
bool has_home_of_its_own();

/// The list of --devices that means these and no others.
std::string devices_of(const Allocation& allocation);

}  // namespace pergpu::cli
