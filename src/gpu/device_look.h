// One look at all GPUs through NVML.  Runs in the probe.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gpu/inventory.h"
#include "gpu/nvml.h"

namespace pergpu::gpu {

/// What a return code of a call about one device says about that device.
struct DeviceVerdict {
  GpuHealth health = GpuHealth::Ok;
  std::string note = {};
};
/// Ok also for codes that only mean "this value is not to be had" (3, 4, 13, 25).
DeviceVerdict judge_device_code(int code);

/// Fills in what a failed nvmlInit or nvmlDeviceGetCount says about the machine.
GpuLook failed_look(int code, const std::string& what);

/// Remembers what does not change while NVML is initialized, so that a look is two or three calls a
/// GPU, and a lost GPU keeps its name.
class DeviceLooker {
 public:
  /// `sysfs` and `devices`: where those lie; other folders for tests.
  explicit DeviceLooker(std::string sysfs = "/sys", std::string devices = "/dev")
      : sysfs_(std::move(sysfs)), devices_(std::move(devices)) {}

  /// `before(index)` is called before each GPU is touched: if a call never returns, the caller's
  /// caller knows where.  GPUs in `skip` are not touched; their reading is Unknown.
  GpuLook look(Nvml& nvml, const std::set<int>& skip, const std::function<void(int)>& before);

  /// Errors that the driver reported since the last call, of GPUs that a look has shown.  Touches
  /// no GPU.  `boot_ns`: now.
  std::vector<GpuXid> take_xids(Nvml& nvml, std::int64_t boot_ns);

  /// What the GPUs `uuids` are doing, as far as a look has shown them.  The rest as in look().
  std::vector<GpuUsage> usage(Nvml& nvml, const std::vector<std::string>& uuids,
                              const std::set<int>& skip, const std::function<void(int)>& before);

  /// Before NVML is shut down: all handles become stale.
  void forget(Nvml& nvml);

 private:
  struct Known {
    NvmlDevice device = nullptr;
    GpuReading facts = {};
    std::uint64_t lowest_used_bytes = 0;
    NvmlDevice board = nullptr;     // itself, or the GPU that it is an instance of
    NvmlEventSet events = nullptr;  // null: it reports none
    std::optional<unsigned> gpu_instance = std::nullopt;
    std::vector<Known> instances = {};
  };

  int learn(Nvml& nvml, unsigned index, GpuReading& reading);
  /// Now.
  bool is_cut(Nvml& nvml, Known& gpu);
  /// Which instances there are now.  The code of what kept it from being known.
  int learn_instances(Nvml& nvml, Known& gpu);
  /// Those of a GPU; or itself where it has none.
  std::vector<GpuReading> read_instances(Nvml& nvml, Known& gpu, bool in_container);
  /// How far apart the GPUs are that can be asked, once all of them are known.
  void pair(Nvml& nvml, const std::set<int>& skip, const std::function<void(int)>& before);
  void read(Nvml& nvml, Known& known, GpuReading& reading, bool in_container);
  /// The GPU, or its instances, whose usage is asked for.
  std::vector<const Known*> asked_for(const std::vector<std::string>& uuids,
                                      const Known& gpu) const;
  GpuUsage usage_of(Nvml& nvml, const Known& known) const;

  std::string sysfs_;
  std::string devices_;
  std::map<unsigned, Known> known_;
  std::size_t paired_ = 0;  // how many of them knew each other last
};

}  // namespace pergpu::gpu
