// GPUs that another program has handed out (Slurm, to an allocation) and that no driver reports:
// other makers' than NVIDIA, or those of a test.  They are taken to be as healthy as that program
// says: nothing is known of their memory or of the processes that use them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/inventory.h"

namespace pergpu::gpu {

/// What the driver's inventory shows; where NVIDIA has no driver, the named ones.
class AllocatedGpus final : public GpuInventory {
 public:
  /// `names`: as a program is to find them in CUDA_VISIBLE_DEVICES.  REQUIRES: `driver` outlives
  /// it.
  AllocatedGpus(GpuInventory& driver, std::vector<std::string> names);
  void look(std::function<void(const GpuLook&)> done) override;
  void stay(bool wanted) override { driver_.stay(wanted); }
  bool read_usage(const UsageQuestion& question,
                  const std::function<void(const UsageAnswer&)>& done) override {
    return driver_.read_usage(question, done);
  }

 private:
  GpuInventory& driver_;
  std::vector<std::string> names_;
};

/// "0,3": the entries of CUDA_VISIBLE_DEVICES; none for "" and "-1".
std::vector<std::string> device_names(std::string_view list);

}  // namespace pergpu::gpu
