// Memory that Slurm does not count is not counted here either.
#include "slurm/node_room.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "job/gpu_parts.h"
#include "job/text.h"
#include "plural.h"

namespace pergpu {
namespace {

bool fits(const NodeShare& share, const slurm::AllocationNode& node, const NodeShare& used) {
  const bool counts_memory = node.memory_bytes > 0;
  return used.gpus + share.gpus <= static_cast<int>(node.gpus.size()) &&
         used.cpus + share.cpus <= node.cpus &&
         (!counts_memory || used.memory_bytes + share.memory_bytes <= node.memory_bytes);
}

}  // namespace

NodeShare share_of(const StepSpec& step, const slurm::AllocationNode& node) {
  const int lanes =
      step.gpus > 0 ? static_cast<int>(node.gpus.size()) / step.gpus : std::max(1, node.cpus);
  return {.gpus = step.gpus,
          .cpus = step.cpus.value_or(std::max(1, node.cpus / std::max(1, lanes))),
          .memory_bytes = step.memory_bytes.value_or(0)};
}

const slurm::AllocationNode* node_for(const StepSpec& step,
                                      const std::vector<slurm::AllocationNode>& nodes,
                                      const std::vector<NodeShare>& used) {
  const slurm::AllocationNode* best = nullptr;
  std::tuple<int, int> most;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!fits(share_of(step, nodes[i]), nodes[i], used[i])) continue;
    const int gpus = static_cast<int>(nodes[i].gpus.size()) - used[i].gpus;
    const int cpus = nodes[i].cpus - used[i].cpus;
    // A job without GPUs goes where the fewest wait for one.
    const std::tuple<int, int> room(step.gpus > 0 ? gpus : -gpus, cpus);
    if (best != nullptr && room <= most) continue;
    best = &nodes[i];
    most = room;
  }
  return best;
}

std::string never_fits(const StepSpec& step, const std::vector<slurm::AllocationNode>& nodes) {
  if (step.gpu_share > 0 || step.gpu_auto) {
    return fmt::format(
        "asks for {} of a GPU, but Slurm gives only whole GPUs in an allocation of several nodes: "
        "set gpus = 1",
        step.gpu_auto ? "an automatic share" : share_text(step.gpu_share));
  }
  const bool one_has_enough = std::any_of(
      nodes.begin(), nodes.end(),
      [&](const slurm::AllocationNode& node) { return fits(share_of(step, node), node, {}); });
  if (one_has_enough) return {};
  int gpus = 0;
  int cpus = 0;
  for (const slurm::AllocationNode& node : nodes) {
    gpus = std::max(gpus, static_cast<int>(node.gpus.size()));
    cpus = std::max(cpus, node.cpus);
  }
  std::string asks = counted(step.gpus, "GPU") + " and " + counted(step.cpus.value_or(1), "core");
  if (step.memory_bytes) asks += " and " + size_text(*step.memory_bytes);
  return fmt::format(
      "asks for {} on one node, but no node of the allocation has that (at most {} and {})", asks,
      gpus, cpus);
}

}  // namespace pergpu
