// `salloc` gives its shell the numbers of the job and nothing of its GPUs; which they are only the
// controller knows.
#include "cli/allocation.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "gpu/allocated_gpus.h"
#include "os/paths.h"
#include "run/slurm_allocation.h"
#include "run/slurm_client.h"
#include "run/slurm_queue.h"

namespace pergpu::cli {
namespace {

std::string_view short_name(std::string_view host) { return host.substr(0, host.find('.')); }

Result<std::vector<std::string>> ask(const std::string& job) {
  constexpr char kWayOut[] = "or name the GPUs by --devices";
  slurm::Client client;
  Result<std::string> text = client.show({"job", "-d", job});
  if (!text) {
    return Error{
        ErrorKind::Unavailable, 0,
        fmt::format("inside Slurm job {}, whose GPUs cannot be found out: {}; try again, {}", job,
                    text.error().message, kWayOut)};
  }
  if (slurm::is_over(slurm::parse_job_state(*text))) {
    return Error{
        ErrorKind::Unavailable, 0,
        fmt::format("the allocation of this shell, Slurm job {}, is over: leave the shell, "
                    "or name the GPUs by --devices and a home by PERGPU_HOME",
                    job)};
  }
  const Result<slurm::AllocationText> parsed = slurm::parse_allocation(*text);
  if (!parsed) {
    return Error{ErrorKind::Unavailable, 0,
                 fmt::format("inside Slurm job {}: {}; {}", job, parsed.error().message, kWayOut)};
  }
  if (parsed->nodes != 1) {
    return Error{ErrorKind::Invalid, 0,
                 fmt::format("inside Slurm job {}, which has {} nodes: pergpu runs on one of them "
                             "(`srun --nodes=1 --ntasks=1 pergpu run …`), or on all as Slurm has "
                             "room for its jobs (--on slurm)",
                             job, parsed->nodes)};
  }
  const Result<std::string> node = client.show({"node", parsed->node});
  const std::string host = node ? slurm::parse_node_host(*node) : std::string();
  if (!host.empty() && short_name(host) != short_name(os::host_name())) {
    return Error{ErrorKind::Invalid, 0,
                 fmt::format("inside Slurm job {}, whose node is {}, and this is {}: "
                             "`srun --pty pergpu run …` runs there",
                             job, parsed->node, os::host_name())};
  }
  std::vector<std::string> gpus;
  for (const int gpu : parsed->gpus) gpus.push_back(std::to_string(gpu));
  return gpus;
}

}  // namespace

Result<std::optional<Allocation>> allocation_here() {
  const std::string job = os::slurm_job();
  if (job.empty()) return std::optional<Allocation>();
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    return std::optional(Allocation{job, gpu::device_names(visible)});
  }
  Result<std::vector<std::string>> gpus = ask(job);
  if (!gpus) return std::move(gpus).error();
  return std::optional(Allocation{job, *std::move(gpus)});
}

std::string devices_of(const Allocation& allocation) {
  std::string out;
  for (const std::string& gpu : allocation.gpus) out += (out.empty() ? "" : ",") + gpu;
  return out.empty() ? "-1" : out;
}

}  // namespace pergpu::cli
