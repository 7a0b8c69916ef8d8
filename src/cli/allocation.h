// Where pergpu is started inside an allocation of Slurm: which GPUs of this machine are in it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "result.h"

namespace pergpu::cli {

struct Allocation {
  std::string job = {};                // Slurm's number of it
  std::vector<std::string> gpus = {};  // as CUDA_VISIBLE_DEVICES names them
};

/// nullopt: this process is in none.  A step and a batch script are told their GPUs by
/// CUDA_VISIBLE_DEVICES; a shell of `salloc` is not, and Slurm is asked (for 20 s at most).
/// Unavailable: Slurm does not answer.  Invalid: the allocation lies on other machines, too.
Result<std::optional<Allocation>> allocation_here();

/// The list of --devices that means these and no others.
std::string devices_of(const Allocation& allocation);

/// For a coordinator that is started inside of one: GPUs that no driver tells of are those.
inline constexpr char kAllocatedGpusName[] = "PERGPU_ALLOCATED_GPUS";

}  // namespace pergpu::cli
