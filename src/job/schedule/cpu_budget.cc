// Pinning takes the free cores near the GPU first, then the lowest others.
#include "job/schedule/cpu_budget.h"

#include <algorithm>
#include <set>

namespace pergpu {

int cpu_budget(std::optional<int> declared, int cores, int lanes, double gpus) {
  if (declared) return std::max(1, *declared);
  const int most = std::max(1, lanes);
  return std::max(1, static_cast<int>(cores * std::clamp<double>(gpus, 0, most) / most));
}

int machine_cpu_lanes(int cores, int gpu_lanes, int gpu_budget) {
  return std::max(1, cores - gpu_lanes * gpu_budget);
}

std::vector<int> choose_cores(int budget, const std::vector<int>& cores,
                              const std::vector<int>& near_cpus,
                              const std::vector<LiveBudget>& live) {
  std::size_t asked = static_cast<std::size_t>(std::max(1, budget));
  std::set<int> taken;
  std::size_t all_budgets = asked;
  for (const LiveBudget& attempt : live) {
    all_budgets += static_cast<std::size_t>(std::max(1, attempt.cpus));
    taken.insert(attempt.cpu_list.begin(), attempt.cpu_list.end());
  }
  if (all_budgets > cores.size()) return {};

  std::vector<int> free;
  for (int core : cores) {
    if (!taken.contains(core)) free.push_back(core);
  }
  std::sort(free.begin(), free.end());
  const std::set<int> near(near_cpus.begin(), near_cpus.end());
  std::stable_partition(free.begin(), free.end(), [&](int core) { return near.contains(core); });
  if (free.size() < asked) return {};
  free.resize(asked);
  std::sort(free.begin(), free.end());
  return free;
}

}  // namespace pergpu
