// Which of a shell's variables go with it to a cluster.  Pure.
#pragma once

#include <string>
#include <vector>

namespace pergpu::slurm {

/// NAME=value entries without what Slurm has set for the shell that they are of (srun and sbatch
/// would take it for options, jobs for their own) and without the names of that machine's GPUs.
std::vector<std::string> step_environment(const std::vector<std::string>& entries);

}  // namespace pergpu::slurm
