// What the machine gives this user: cores and memory, the cgroup's limits if they are less.
#pragma once

#include <cstdint>
#include <vector>

namespace pergpu {

struct Machine {
  std::vector<int> cores = {};  // numbers of the cores we may run on
  std::uint64_t memory_bytes = 0;
  int core_count() const { return static_cast<int>(cores.size()); }
};

/// What a sweep may use whose shell has this affinity (empty: not known).
struct CoreShare {
  int count = 0;
  std::vector<int> cores = {};  // empty: which ones is not known, for a quota names none
};
CoreShare cores_within(const Machine& machine, const std::vector<int>& affinity);

/// Reads sched_getaffinity, the cgroup's cpu.max and memory.max (v2, or v1), /proc/meminfo.
Machine read_machine();

}  // namespace pergpu
