// What sbatch would refuse, or silently do without, is refused before anything is handed over.
#include "coordinator/cluster_fit.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "coordinator/submit.h"
#include "job/gpu_parts.h"
#include "run/slurm_script.h"

namespace pergpu {
namespace {

Error invalid(std::string what) { return Error{ErrorKind::Invalid, 0, std::move(what)}; }

}  // namespace

Result<void> check_for_cluster(const SweepSpec& sweep) {
  const auto is_one_line = [](const std::string& path) { return path.find('\n') == path.npos; };
  if (!is_one_line(sweep.folder) || !is_one_line(output_root(sweep))) {
    return invalid("a folder whose name has several lines cannot be told to Slurm: " +
                   (is_one_line(sweep.folder) ? output_root(sweep) : sweep.folder));
  }
  for (const StepSpec& step : sweep.steps) {
    if (!step.gpu.empty() && !slurm::is_gpu_type(step.gpu)) {
      return invalid(
          fmt::format("step {}: gpu = \"{}\" is no name of a type, which is all that Slurm takes "
                      "(`sinfo -o %G` shows them); or name a `constraint` in `slurm`",
                      step.name, step.gpu));
    }
    if (step.gpu_share > 0 || step.gpu_auto) {
      return invalid(
          fmt::format("step {}: gpus = {}: Slurm gives whole GPUs to jobs of their own; "
                      "ask for gpus = 1, or use shares on this machine",
                      step.name, step.gpu_auto ? "\"auto\"" : share_text(step.gpu_share)));
    }
    if (step.sharing == Sharing::Mig) {
      return invalid(
          fmt::format("step {}: sharing = \"mig\" chooses on this machine; on a cluster "
                      "name the type of the instance, gpu = \"1g.10gb\"",
                      step.name));
    }
    if (step.weight > 0) {
      return invalid(
          fmt::format("step {}: `weight` shares the lanes of this machine among its sweeps; leave "
                      "it out, Slurm shares a cluster by rules of its own",
                      step.name));
    }
    // It counts the jobs that this machine runs.
    if (step.uses.empty()) continue;
    return invalid(
        fmt::format("step {}: `uses` counts jobs on this machine and cannot be kept on a cluster; "
                    "leave it out, `max_parallel` limits a step there, too",
                    step.name));
  }
  return {};
}

}  // namespace pergpu
