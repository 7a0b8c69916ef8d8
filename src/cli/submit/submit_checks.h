// What can be seen before a submit: whether results can be written, and whether the programs are
// there.
#pragma once

#include <string>
#include <vector>

#include "result.h"
#include "spec/sweep/sweep.h"

namespace pergpu::cli {

/// ErrorKind::Invalid: nothing can be written where the results are to lie; says where and what to
/// do.  Leaves nothing behind.
Result<void> check_results_folder(const SweepSpec& sweep);

/// One sentence for each program or script that a job would not find, or could not start.  Only
/// what is certain for a step without needs on this machine: a later one may be made by a job.
std::vector<std::string> program_warnings(const SweepSpec& sweep,
                                          const std::vector<std::string>& env);

/// "": `env` has sbatch.  Where it has not, the coordinator may, in its own PATH.
std::string slurm_warning(const std::vector<std::string>& env);

}  // namespace pergpu::cli
