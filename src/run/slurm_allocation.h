// What `scontrol show` tells of an allocation: how many nodes it has, and which GPUs of its node.
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "result.h"

namespace pergpu::slurm {

struct AllocationText {
  int nodes = 0;
  std::string node = {};       // its only one; "": it has several
  std::vector<int> gpus = {};  // indices on that node, ascending
  bool operator==(const AllocationText&) const = default;
};
/// Of `scontrol show job -d`.  ErrorKind::Corrupt: it is something else.
Result<AllocationText> parse_allocation(std::string_view text);

/// "RUNNING"; "": it is not told.
std::string parse_job_state(std::string_view text);

/// NodeHostName of `scontrol show node`: what the machine calls itself; "": it is not told.
std::string parse_node_host(std::string_view text);

}  // namespace pergpu::slurm
