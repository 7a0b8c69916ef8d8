// The GPU seam: which devices exist, how they are and who uses them.  The real one asks a probe
// process (the only one that touches NVML); a reading that misses its deadline is "unknown",
// never "healthy" and never "lost".
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "os/process/tree_usage.h"
#include "result.h"

namespace pergpu {

/// What a probe reports stays bounded, whatever the library or the files of the kernel say.
inline constexpr unsigned kMaxGpus = 64;
inline constexpr std::size_t kMaxProcesses = 256;  // of a GPU

/// A process on a GPU as NVML reports it.  In a container pids are the host's and cannot be
/// matched.
struct GpuProcess {
  std::int32_t pid = 0;
  std::optional<std::uint64_t> memory_bytes = std::nullopt;
  bool compute = true;                              // false: graphics only
  bool matched = true;                              // false: no process of that pid here
  std::optional<std::uint32_t> uid = std::nullopt;  // nullopt: not visible from here
  std::string command = {};                         // /proc/pid/comm, "" when not visible
  std::vector<std::int32_t> ancestors = {};  // parent, its parent, … below pid 1; as far as visible
};

enum class GpuHealth : std::uint8_t {
  Ok,
  Unknown,  // the reading failed or was late
  Lost,     // NVML says so (15, 28)
  Error,    // another NVML code: see `note`
};

/// GpuReading::compute_mode.
constexpr int kComputeProhibited = 2;
constexpr int kComputeOneProcess = 3;

/// GpuReading::distances: by NVLink, or by what two GPUs have in common on the way through PCIe.
/// The larger ones are NVML's own numbers (nvmlGpuTopologyLevel_t); 0: itself, or not known.
constexpr int kByNvLink = 1;
constexpr int kOnOneBoard = 5;
constexpr int kAcrossSockets = 50;

/// Of a GPU; of one that is cut into instances (MIG) there is a reading of each of them instead.
struct GpuReading {
  std::string uuid = {};
  std::string name = {};
  std::string pci = {};  // "0000:65:00.0"
  int index = 0;         // NVML order; of AMD's GPUs that of their PCI addresses
  int instance = -1;     // of those that the GPU is cut into (MIG); -1: the GPU, which is not
  int minor = -1;        // /dev/nvidia<minor>
  int numa_node = -1;
  std::vector<int> near_cpus = {};  // cores of its NUMA node; empty: unknown
  std::vector<int> distances = {};  // to the GPU of each index; empty: not known
  std::uint64_t total_bytes = 0;
  std::uint64_t used_bytes = 0;
  std::optional<int> utilization = std::nullopt;  // percent of the last moments; nullopt: not known
  GpuHealth health = GpuHealth::Ok;
  std::string note = {};  // health as text
  // nullopt: not reported this time.  What a GPU does not have at all is reported as "no".
  std::optional<bool> repair_pending = std::nullopt;  // at the next reset: rows to remap, pages
  std::optional<bool> repair_failed = std::nullopt;   // it had no spare rows left
  std::optional<int> recovery_action = std::nullopt;  // the driver's advice (gpu/health.h); 0: none
  // How it was set up when the driver was first asked; nullopt: not reported.
  std::optional<bool> persistent = std::nullopt;   // the driver stays awake without programs
  std::optional<bool> mig = std::nullopt;          // cut into instances
  std::optional<bool> mig_pending = std::nullopt;  // what `mig` is after the next reset
  std::optional<int> compute_mode = std::nullopt;  // 0: any number of programs
  std::vector<GpuProcess> processes = {};
  /// Processes that NVML does not list but that keep /dev/nvidia<minor> open (and with it the
  /// memory): orphaned workers.  Own uid only, all for root.  Looked for only when memory is in use
  /// that no listed process explains.
  std::vector<GpuProcess> device_holders = {};
};

/// A critical error that the driver reported.
struct GpuXid {
  std::string uuid = {};
  std::int64_t number = 0;
  std::int64_t boot_ns = 0;  // when it was seen: it happened since the look before
  bool operator==(const GpuXid&) const = default;
};

/// One look at all devices.
struct GpuLook {
  bool complete = false;         // false: probe failed or was late; `why` says how
  std::string why = {};          // also set when there is no driver at all ("no NVIDIA driver")
  bool no_driver = false;        // neither NVIDIA's driver nor a GPU of AMD: a machine without GPUs
  bool driver_mismatch = false;  // NVML 18: hold the queue, keep jobs
  bool in_container = false;     // pids cannot be matched
  // Versions; "" when not reported.
  std::string driver = {};
  std::string library = {};  // the driver that the library belongs to
  std::string cuda = {};     // the newest that the driver serves
  std::vector<GpuReading> gpus = {};
  /// Since the look before, as far as one probe lived through both.  Also in an incomplete look: a
  /// GPU that hangs has often said why before.
  std::vector<GpuXid> xids = {};
};

/// What is asked of a reading of usage.
struct UsageQuestion {
  std::vector<os::TreeRoot> trees = {};
  std::vector<std::string> gpus = {};  // UUIDs
  bool operator==(const UsageQuestion&) const = default;
};

/// What a GPU is doing; nullopt: not reported.
struct GpuUsage {
  std::string uuid = {};
  std::optional<int> busy_percent = std::nullopt;  // of the last moments
  std::optional<std::uint64_t> used_bytes = std::nullopt;
  std::optional<std::int64_t> power_mw = std::nullopt;
  std::optional<int> temperature_c = std::nullopt;
  std::optional<int> clock_mhz = std::nullopt;
  std::optional<std::uint32_t> throttle = std::nullopt;  // bits of gpu/throttle.h
  bool operator==(const GpuUsage&) const = default;
};

/// One reading.
struct UsageAnswer {
  std::int64_t boot_ns = 0;                              // when it was made; 0: it was not
  std::int64_t cost_ns = 0;                              // of CPU time
  std::vector<std::optional<os::TreeUsage>> trees = {};  // as asked; nullopt: gone
  std::vector<GpuUsage> gpus = {};                       // those that are known
  bool operator==(const UsageAnswer&) const = default;
};

class GpuInventory {
 public:
  virtual ~GpuInventory() = default;
  /// Asks for one look; `done` runs on the deciding thread, exactly once, at the latest when the
  /// deadline has passed.  Looks asked for while one is under way share the next one.
  virtual void look(std::function<void(const GpuLook&)> done) = 0;
  /// Whether the second of two looks has to show errors that happened between them: true while jobs
  /// run on GPUs.  The probe then keeps running between looks.
  virtual void stay(bool /*wanted*/) {}
  /// Reads once what trees and GPUs use.  `done` runs later on the deciding thread, exactly once.
  /// False, and `done` never runs: not now, because something else is being read, or cannot be.
  virtual bool read_usage(const UsageQuestion& /*question*/,
                          const std::function<void(const UsageAnswer&)>& /*done*/) {
    return false;
  }
};

}  // namespace pergpu
