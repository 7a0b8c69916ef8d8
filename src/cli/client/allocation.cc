// `salloc` gives its shell the numbers of the job and nothing of its GPUs; which they are only the
// controller knows.
#include "cli/client/allocation.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "gpu/allocated_gpus.h"
#include "os/process/paths.h"
#include "slurm/slurm_allocation.h"
#include "slurm/slurm_client.h"
#include "slurm/slurm_queue.h"

namespace pergpu::cli {
namespace {

std::string_view short_name(std::string_view host) { return host.substr(0, host.find('.')); }

Result<Allocation> ask_slurm(const std::string& job) {
  constexpr char kWayOut[] = "or name the GPUs with --devices";
  slurm::Client client;
  Result<std::string> text = client.show({"job", "-d", job});
  if (!text) {
    return Error{
        ErrorKind::Unavailable, 0,
        fmt::format(
            "can't find the GPUs of Slurm job {}, which this shell is in: {}; try again, {}", job,
            text.error().message, kWayOut)};
  }
  if (slurm::is_over(slurm::parse_job_state(*text))) {
    return Error{ErrorKind::Unavailable, 0,
                 fmt::format("the allocation of this shell, Slurm job {}, is over: leave the "
                             "shell, or name the GPUs with --devices and a home with PERGPU_HOME",
                             job)};
  }
  const Result<std::vector<slurm::AllocationNode>> nodes = slurm::parse_allocation(*text);
  if (!nodes) {
    return Error{ErrorKind::Unavailable, 0,
                 fmt::format("inside Slurm job {}: {}; {}", job, nodes.error().message, kWayOut)};
  }
  Allocation out{.job = job, .nodes = static_cast<int>(nodes->size())};
  if (out.nodes > 1) return out;
  const slurm::AllocationNode& only = nodes->front();
  const Result<std::string> node = client.show({"node", only.name});
  const std::string host = node ? slurm::parse_node_host(*node) : std::string();
  if (!host.empty() && short_name(host) != short_name(os::host_name())) {
    return Error{
        ErrorKind::Invalid, 0,
        fmt::format(
            "Slurm job {} has node {}, but this is {}: run it there with `srun --pty pergpu run …`",
            job, only.name, os::host_name())};
  }
  for (const int gpu : only.gpus) out.gpus.push_back(std::to_string(gpu));
  return out;
}

}  // namespace

int nodes_of_shell() {
  // Those of Slurm's own making (batch, interactive) are shells of the whole allocation.
  constexpr unsigned long kFirstOfSlurm = 0xfffffff0;
  const char* step = std::getenv("SLURM_STEP_ID");
  if (step != nullptr && std::strtoul(step, nullptr, 10) < kFirstOfSlurm) return 0;
  const char* nodes = std::getenv("SLURM_JOB_NUM_NODES");
  return nodes == nullptr ? 0 : std::atoi(nodes);
}

bool has_home_of_its_own() {
  const char* named = std::getenv("PERGPU_HOME");
  return named == nullptr || *named == '\0';
}

Result<std::optional<Allocation>> allocation_here() {
  const std::string job = os::slurm_job();
  if (job.empty()) return std::optional<Allocation>();
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr && nodes_of_shell() <= 1) {
    return std::optional(Allocation{job, gpu::device_names(visible)});
  }
  Result<Allocation> told = ask_slurm(job);
  if (!told) return std::move(told).error();
  return std::optional(*std::move(told));
}

std::string devices_of(const Allocation& allocation) {
  std::string out;
  for (const std::string& gpu : allocation.gpus) out += (out.empty() ? "" : ",") + gpu;
  return out.empty() ? "-1" : out;
}

}  // namespace pergpu::cli
