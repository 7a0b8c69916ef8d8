// The CPU budget of a job and the cores it is pinned to (docs/jobs.md).  Pure.
#pragma once

#include <optional>
#include <vector>

namespace pergpu {

/// k = declared, else max(1, floor(cores / lanes)), of an attempt with N GPUs N times that, of one
/// with a share of a GPU as large a part.  `lanes` = how many attempts can run at once, if each has
/// one GPU.
int cpu_budget(std::optional<int> declared, int cores, int lanes, double gpus = 1);

/// How many CPU lanes a machine with GPUs has: one per core minus the budgets of the GPU lanes, at
/// least 1.
int machine_cpu_lanes(int cores, int gpu_lanes, int gpu_budget);

/// One live attempt as far as pinning is concerned.
struct LiveBudget {
  int cpus = 1;
  std::vector<int> cpu_list = {};  // empty: not pinned
};

/// The cores for a new attempt of `budget` cpus, ascending; empty: do not pin.  `cores` are those
/// we may use at all, `near_cpus` those of its GPU's node (empty: no preference).  Pins only when
/// the budgets of all live attempts and the new one fit the cores, because then no attempt waits
/// for a core that another one could lend.
std::vector<int> choose_cores(int budget, const std::vector<int>& cores,
                              const std::vector<int>& near_cpus,
                              const std::vector<LiveBudget>& live);

}  // namespace pergpu
