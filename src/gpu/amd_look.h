// AMD GPUs, as the kernel's driver (amdgpu) shows them in sysfs and /proc: no library is needed.
// Runs in the probe.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gpu/drm_clients.h"
#include "gpu/inventory.h"

namespace pergpu::gpu {

/// Whether the GPUs of a look are AMD's; false without any.
bool is_amd(const GpuLook& look);

/// Remembers which GPUs there were, so that one that cannot be read any more keeps its name.
class AmdLooker {
 public:
  /// `sysfs` and `proc`: where those lie; other folders for tests.
  explicit AmdLooker(std::string sysfs = "/sys", std::string proc = "/proc")
      : sysfs_(std::move(sysfs)), proc_(std::move(proc)) {}

  /// In the order of their PCI addresses; empty: there are none.  `before` and `skip` as in
  /// gpu/device_look.h.
  std::vector<GpuReading> look(const std::set<int>& skip, const std::function<void(int)>& before);

  /// What the GPUs `uuids` are doing, as far as a look has shown them.
  std::vector<GpuUsage> usage(const std::vector<std::string>& uuids, const std::set<int>& skip,
                              const std::function<void(int)>& before) const;

 private:
  struct Known {
    std::string folder = {};  // of its files
    bool is_there = true;
    GpuReading facts = {};
  };
  /// By PCI address, in the order of the bus: one of more digits comes after all others.
  using Place = std::pair<std::size_t, std::string>;

  void learn();
  void learn_one(const std::string& folder);

  std::string sysfs_;
  std::string proc_;
  std::map<Place, Known> known_;
};

}  // namespace pergpu::gpu
