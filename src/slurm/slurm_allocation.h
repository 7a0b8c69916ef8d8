// What `scontrol show` reports of an allocation: its nodes, and what it has of each.  Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "result.h"

namespace pergpu::slurm {

struct AllocationNode {
  std::string name = {};
  std::vector<int> gpus = {};  // indices on that node, ascending
  int cpus = 0;
  std::uint64_t memory_bytes = 0;  // 0: Slurm does not count it
  bool operator==(const AllocationNode&) const = default;
};

/// Of `scontrol show job -d`: one at least.  ErrorKind::Corrupt: it is something else.
Result<std::vector<AllocationNode>> parse_allocation(std::string_view text);

/// "n[08-10,12]-ib,m3" as names; ErrorKind::Corrupt: it is no list of nodes.
Result<std::vector<std::string>> hosts_of(std::string_view text);

/// "RUNNING"; "": not reported.
std::string parse_job_state(std::string_view text);

/// NodeHostName of `scontrol show node`: what the machine calls itself; "": not reported.
std::string parse_node_host(std::string_view text);

}  // namespace pergpu::slurm
