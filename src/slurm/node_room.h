// Where in an allocation of several nodes a job has room: pergpu chooses the node, because Slurm
// would keep a step waiting without a word where there is none.  Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/job.h"
#include "job/step.h"
#include "slurm/slurm_allocation.h"

namespace pergpu {

/// What a job has of its node, or what a node has left.
struct NodeShare {
  int gpus = 0;
  int cpus = 0;
  std::uint64_t memory_bytes = 0;
  bool operator==(const NodeShare&) const = default;
};

/// Of a job of this step on that node: the cores that it declares, else as many as its GPUs have.
NodeShare share_of(const StepSpec& step, const slurm::AllocationNode& node);

/// The node with the most room among those that have enough; nullptr: none has, now.  `used`: of
/// each node, in their order.
const slurm::AllocationNode* node_for(const StepSpec& step,
                                      const std::vector<slurm::AllocationNode>& nodes,
                                      const std::vector<NodeShare>& used);

/// Why no node has enough even when nothing runs there; "": one has.
std::string never_fits(const StepSpec& step, const std::vector<slurm::AllocationNode>& nodes);

}  // namespace pergpu
