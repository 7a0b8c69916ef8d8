// What sbatch would refuse, or silently do without, is refused before anything is handed over.
#include "slurm/cluster_fit.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "job/gpu_parts.h"
#include "slurm/slurm_script.h"
#include "state/submit.h"

namespace pergpu {
namespace {}  // namespace

Result<void> check_for_cluster(const SweepSpec& sweep) {
  const auto is_one_line = [](const std::string& path) { return path.find('\n') == path.npos; };
  if (!is_one_line(sweep.folder) || !is_one_line(output_root(sweep))) {
    return invalid("the folder's name contains a line break, which Slurm doesn't support: " +
                   (is_one_line(sweep.folder) ? output_root(sweep) : sweep.folder));
  }
  for (const StepSpec& step : sweep.steps) {
    if (!step.gpu.empty() && !slurm::is_gpu_type(step.gpu)) {
      return invalid(
          fmt::format("step {}: gpu = \"{}\" isn't a GPU type name, as Slurm requires; `sinfo -o "
                      "%G` lists the types, or set `constraint` in `slurm`",
                      step.name, step.gpu));
    }
    if (step.gpu_share > 0 || step.gpu_auto) {
      return invalid(
          fmt::format("step {}: gpus = {}: Slurm allocates only whole GPUs; set gpus = 1, or use "
                      "shares on this machine",
                      step.name, step.gpu_auto ? "\"auto\"" : share_text(step.gpu_share)));
    }
    if (step.sharing == Sharing::Mig) {
      return invalid(
          fmt::format("step {}: sharing = \"mig\" works only on this machine; on a cluster, set "
                      "the instance type, such as gpu = \"1g.10gb\"",
                      step.name));
    }
    if (step.weight > 0) {
      return invalid(
          fmt::format("step {}: `weight` shares the lanes of this machine; remove it, because "
                      "Slurm has its own fair-share rules",
                      step.name));
    }
    // It counts the jobs that this machine runs.
    if (step.uses.empty()) continue;
    return invalid(
        fmt::format("step {}: `uses` counts jobs on this machine and doesn't work on a cluster; "
                    "use `max_parallel` instead",
                    step.name));
  }
  return {};
}

}  // namespace pergpu
