// SLURM_CONF says where Slurm's configuration lies.
#include "slurm/slurm_environment.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace pergpu::slurm {

std::vector<std::string> step_environment(const std::vector<std::string>& entries) {
  constexpr std::array<std::string_view, 5> kLeft = {
      "SLURM_", "SRUN_", "CUDA_VISIBLE_DEVICES=", "ROCR_VISIBLE_DEVICES=", "GPU_DEVICE_ORDINAL="};
  std::vector<std::string> out;
  for (const std::string& entry : entries) {
    const bool is_left = std::any_of(
        kLeft.begin(), kLeft.end(), [&](std::string_view name) { return entry.starts_with(name); });
    if (!is_left || entry.starts_with("SLURM_CONF=")) out.push_back(entry);
  }
  return out;
}

}  // namespace pergpu::slurm
