// NVML by dlopen, with prototypes of our own: no header and no stub of the vendor is needed to
// build or to run.  Each symbol is resolved separately; a missing one is an ability that is absent,
// never an error of the whole.  Only the probe process uses this: any call can block forever.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "result.h"

namespace pergpu::gpu {

/// Return codes that decide something here.
namespace nvml_code {
constexpr int kSuccess = 0;
constexpr int kInvalidArgument = 2;
constexpr int kNotSupported = 3;
constexpr int kNoPermission = 4;
constexpr int kNotFound = 6;
constexpr int kInsufficientSize = 7;
constexpr int kDriverNotLoaded = 9;
constexpr int kTimeout = 10;
constexpr int kLibraryNotFound = 12;
constexpr int kFunctionNotFound = 13;
constexpr int kGpuIsLost = 15;
constexpr int kResetRequired = 16;
constexpr int kOperatingSystem = 17;
constexpr int kVersionMismatch = 18;  // library and kernel module are of different drivers
constexpr int kStructVersion = 25;
constexpr int kGpuNotFound = 28;
}  // namespace nvml_code

/// "GPU is lost (NVML 15)".
std::string nvml_words(int code);

struct NvmlDeviceOpaque;
using NvmlDevice = NvmlDeviceOpaque*;
struct NvmlEventSetOpaque;
using NvmlEventSet = NvmlEventSetOpaque*;

/// What a call gave: `value` counts only when `code` is kSuccess.
template <typename T>
struct NvmlAnswer {
  int code = nvml_code::kFunctionNotFound;
  T value = {};
  bool ok() const { return code == nvml_code::kSuccess; }
};

struct NvmlMemory {
  std::uint64_t total_bytes = 0;
  std::uint64_t used_bytes = 0;
};

struct NvmlProcess {
  std::uint32_t pid = 0;
  std::optional<std::uint64_t> memory_bytes = std::nullopt;
};

/// What the driver keeps about a GPU's health; nullopt: asking failed.  "No" where driver or GPU do
/// not have the value at all.
struct NvmlHealth {
  std::optional<bool> repair_pending = std::nullopt;  // rows to remap, or pages to retire
  std::optional<bool> repair_failed = std::nullopt;   // a row could not be remapped
  std::optional<int> recovery_action = std::nullopt;  // the driver's own advice
};

/// How a GPU was set up; nullopt: not reported, or it has no such setting.
struct NvmlSettings {
  std::optional<bool> persistent = std::nullopt;   // the driver stays awake without programs
  std::optional<bool> mig = std::nullopt;          // cut into instances
  std::optional<bool> mig_pending = std::nullopt;  // what `mig` is after the next reset
  std::optional<int> compute_mode = std::nullopt;  // gpu/inventory.h
};

/// A critical error.
struct NvmlXid {
  std::uint64_t number = 0;
  std::optional<unsigned> gpu_instance = std::nullopt;  // nullopt: whole GPU, or not reported
  bool operator==(const NvmlXid&) const = default;
};

enum class NvmlProcessKind : std::uint8_t { Compute, Graphics };

/// How far apart the entries of a process list lie: `bytes` was filled with kNvmlCanary before a
/// driver wrote `count` of at most `capacity` entries to it.  nullopt: no layout fits.  Drivers
/// wrote 16, 24 and 32 bytes an entry under one and the same symbol. REQUIRES: capacity is
/// divisible by neither 2 nor 3 (then no two layouts end at the same byte).
constexpr unsigned char kNvmlCanary = 0xA5;
std::optional<std::size_t> process_stride(const std::vector<unsigned char>& bytes,
                                          std::size_t count, std::size_t capacity);
/// The entries of such a list; nullopt: it is not to be believed.
std::optional<std::vector<NvmlProcess>> processes_in(const std::vector<unsigned char>& bytes,
                                                     std::size_t count, std::size_t capacity);

class Nvml {
 public:
  /// $PERGPU_NVML, else libnvidia-ml.so.1.  ErrorKind::NotFound: there is no such library (no
  /// NVIDIA driver); Unavailable: it is not one that can be used.
  static Result<Nvml> load();
  static Result<Nvml> load(const std::string& path);

  Nvml(Nvml&& other) noexcept;
  Nvml& operator=(Nvml&&) = delete;
  ~Nvml();

  /// Its file is another one now: the driver was updated.
  bool file_was_replaced() const;

  int init();
  void shutdown();
  std::string driver_version();  // "" when not reported
  // Defined in nvml_settings.cc; "" when not reported.
  std::string library_version();  // the driver it is part of; also before init()
  std::string cuda_version();     // "12.4": the newest that the driver serves

  NvmlAnswer<unsigned> device_count();
  NvmlAnswer<NvmlDevice> device(unsigned index);
  NvmlAnswer<std::string> uuid(NvmlDevice device);
  NvmlAnswer<std::string> name(NvmlDevice device);
  /// "0000:65:00.0", as sysfs spells it.
  NvmlAnswer<std::string> pci_address(NvmlDevice device);
  NvmlAnswer<unsigned> minor_number(NvmlDevice device);
  NvmlAnswer<NvmlMemory> memory(NvmlDevice device);
  /// ok() only if the list was understood; kStructVersion when its layout is not known.
  NvmlAnswer<std::vector<NvmlProcess>> processes(NvmlDevice device, NvmlProcessKind kind);
  NvmlAnswer<unsigned> numa_node(NvmlDevice device);
  /// Per cent of the last moments in which a kernel ran.
  NvmlAnswer<unsigned> utilization(NvmlDevice device);
  NvmlAnswer<std::vector<int>> near_cpus(NvmlDevice device);
  NvmlSettings settings(NvmlDevice device);  // nvml_settings.cc
  // Defined in nvml_mig.cc.
  /// Whether MIG is on: it serves by its instances only.
  NvmlAnswer<bool> is_cut(NvmlDevice gpu);
  /// Numbers of a GPU's instances are below this.
  NvmlAnswer<unsigned> most_instances(NvmlDevice gpu);
  /// kNotFound: there is none of that number; there may be some of higher ones.
  NvmlAnswer<NvmlDevice> instance(NvmlDevice gpu, unsigned number);
  /// As NvmlXid::gpu_instance has it.  Several instances may have the same one.
  NvmlAnswer<unsigned> gpu_instance(NvmlDevice instance);
  // Defined in nvml_topology.cc.
  /// Whether they reach each other by NVLink, directly or through a switch.
  NvmlAnswer<bool> has_nvlink(NvmlDevice a, NvmlDevice b);
  /// What they have in common in PCIe: 0 a board, 10 a switch, 20 switches, 30 a host bridge, 40 a
  /// NUMA node, 50 the machine.
  NvmlAnswer<int> common_ancestor(NvmlDevice a, NvmlDevice b);
  // Defined in nvml_usage.cc.
  NvmlAnswer<unsigned> power_mw(NvmlDevice device);
  NvmlAnswer<unsigned> temperature_c(NvmlDevice device);
  /// Of the multiprocessors.
  NvmlAnswer<unsigned> clock_mhz(NvmlDevice device);
  /// Bits of gpu/throttle.h.
  NvmlAnswer<std::uint32_t> throttle(NvmlDevice device);
  // Defined in nvml_health.cc.
  NvmlHealth health(NvmlDevice device);
  /// From now on the driver keeps the GPU's critical errors (Xids) for this set.  A set for each
  /// GPU: waiting on one that a lost GPU is in fails.  kNotSupported: it reports none.
  NvmlAnswer<NvmlEventSet> watch_xids(NvmlDevice device);
  /// Those since the last call, oldest first, at most kMostXids.  Does not wait.
  std::vector<NvmlXid> take_xids(NvmlEventSet events);
  void unwatch(NvmlEventSet events);

 private:
  struct Functions {
    int (*init)() = nullptr;
    int (*shutdown)() = nullptr;
    int (*driver_version)(char*, unsigned) = nullptr;
    int (*library_version)(char*, unsigned) = nullptr;
    int (*cuda_version)(int*) = nullptr;
    int (*persistence)(NvmlDevice, int*) = nullptr;
    int (*mig_mode)(NvmlDevice, unsigned*, unsigned*) = nullptr;
    int (*most_instances)(NvmlDevice, unsigned*) = nullptr;
    int (*instance)(NvmlDevice, unsigned, NvmlDevice*) = nullptr;
    int (*gpu_instance)(NvmlDevice, unsigned*) = nullptr;
    int (*compute_mode)(NvmlDevice, int*) = nullptr;
    int (*device_count)(unsigned*) = nullptr;
    int (*device)(unsigned, NvmlDevice*) = nullptr;
    int (*uuid)(NvmlDevice, char*, unsigned) = nullptr;
    int (*name)(NvmlDevice, char*, unsigned) = nullptr;
    int (*pci_info)(NvmlDevice, void*) = nullptr;
    int (*minor_number)(NvmlDevice, unsigned*) = nullptr;
    int (*memory)(NvmlDevice, void*) = nullptr;
    int (*memory_v2)(NvmlDevice, void*) = nullptr;
    // Newest first; entries of an older driver are null.
    using ListProcesses = int (*)(NvmlDevice, unsigned*, void*);
    std::array<ListProcesses, 3> compute_processes = {};
    std::array<ListProcesses, 3> graphics_processes = {};
    int (*numa_node)(NvmlDevice, unsigned*) = nullptr;
    int (*p2p_status)(NvmlDevice, NvmlDevice, int, int*) = nullptr;
    int (*common_ancestor)(NvmlDevice, NvmlDevice, int*) = nullptr;
    int (*utilization)(NvmlDevice, void*) = nullptr;
    int (*cpu_affinity)(NvmlDevice, unsigned, unsigned long*) = nullptr;
    int (*power)(NvmlDevice, unsigned*) = nullptr;
    int (*temperature)(NvmlDevice, int, unsigned*) = nullptr;
    int (*clock)(NvmlDevice, int, unsigned*) = nullptr;
    int (*throttle)(NvmlDevice, unsigned long long*) = nullptr;
    int (*field_values)(NvmlDevice, int, void*) = nullptr;
    int (*event_types)(NvmlDevice, unsigned long long*) = nullptr;
    int (*make_events)(NvmlEventSet*) = nullptr;
    int (*register_events)(NvmlDevice, unsigned long long, NvmlEventSet) = nullptr;
    int (*wait_for_event)(NvmlEventSet, void*, unsigned) = nullptr;
    int (*free_events)(NvmlEventSet) = nullptr;
  };

  Nvml(void* library, const Functions& functions);

  void* library_ = nullptr;
  Functions call_ = {};
  std::string file_ = {};  // as the loader found it
  std::optional<std::pair<std::uint64_t, std::uint64_t>> inode_ = std::nullopt;
};

/// Of one GPU and one look: a driver that reports without an end must not hold the probe up.
constexpr std::size_t kMostXids = 64;

/// The `used_bytes` of a list entry when the driver does not report it.
constexpr std::uint64_t kNvmlNotAvailable = ~std::uint64_t{0};

/// "12.550.54.15" -> "550.54.15": what an NVML library says of itself, without the CUDA version.
std::string driver_of_library(std::string_view version);

/// "00000000:65:00.0" or "0000:65:00.0" in either case -> "0000:65:00.0".
std::string sysfs_pci_address(std::string_view bus_id);

}  // namespace pergpu::gpu
