// Who uses a GPU: one reading -> one verdict with words.  Pure.
//
// The rules, in this order:
//   unusable       NVML reports the device as lost, in error, or did not answer for it
//   foreign        a compute process that is not ours
//   unknown holder a compute process whose pid means nothing here (container), or, with no process
//                  to explain it, more than 500 MiB above the idle reading
//   dirty          something of our job that ended is left:
//                  a process, a pid that means nothing any more,
//                  a worker that NVML does not list,
//                  or memory more than 300 MiB above the idle reading
//   ours           the lane's own attempt runs on it
//   free           none of these
// Graphics-only processes do not count, nor does their memory.  `outsiders = "ignore"` skips
// foreign and unknown holder, and the memory part of dirty (it may be the other process's); so does
// "fit" where so much memory is free as the job needs, unless our own job left it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpu/inventory.h"
#include "job/step.h"

namespace pergpu::gpu {

constexpr std::uint64_t kMiB = 1024 * 1024;
/// A CUDA context alone takes 300 to 500 MiB: more than this above idle means that a process
/// computes.
constexpr std::uint64_t kUsedAboveIdleBytes = 500 * kMiB;
/// The driver's own bookkeeping may keep some pages after a job; more than this is the job's.
constexpr std::uint64_t kCleanAboveIdleBytes = 300 * kMiB;
/// An idle GPU never showed more than the driver's reservation; a first reading above this is not
/// taken for idle.
constexpr std::uint64_t kMaxIdleBytes = 1536 * kMiB;
/// A GPU that is not clean this long after a job ended is dirty (docs/gpus.md).
constexpr std::chrono::seconds kDirtyAfter{10};

enum class GpuUse : std::uint8_t { Free, Ours, Foreign, UnknownHolder, Dirty, Unusable };
std::string_view to_string(GpuUse use);  // "free", "ours", "foreign", "unknown holder", …

struct UseVerdict {
  GpuUse use = GpuUse::Free;
  std::string words = {};  // "used by alice (python3, pid 4711, 21.3 GiB)"; "" if free
  std::vector<GpuProcess> holders = {};  // who, as far as known
  bool startable() const { return use == GpuUse::Free; }
};

/// What the caller knows besides the reading.
struct UseQuestion {
  bool in_container = false;                               // GpuLook::in_container
  bool running_ours = false;                               // our attempt is live on it
  bool after_job = false;                                  // … or was, and memory must be back
  std::optional<std::uint64_t> idle_bytes = std::nullopt;  // IdleMemory::of
  Outsiders outsiders = Outsiders::Avoid;
  std::uint64_t needed_bytes = 0;  // Outsiders::Fit: this much has to be free
  /// A process of one of our attempts or keepers, ended ones included; see descends_from().
  std::function<bool(const GpuProcess&)> ours = {};
  std::function<std::string(std::uint32_t uid)> user_name = {};  // for words; empty: "uid 1001"
};

/// Memory of the GPU that is free; 0: not known.
std::uint64_t free_bytes(const GpuReading& reading);

UseVerdict judge(const GpuReading& reading, const UseQuestion& question);

/// True when the process or one of its ancestors is among `roots` (pids of attempts and keepers:
/// a keeper is the sub-reaper of its tree, so an orphan still descends from it).
bool descends_from(const GpuProcess& process, const std::vector<std::int32_t>& roots);

/// Bytes in use that no listed process explains, above those of the idle GPU; 0: not known.
std::uint64_t unexplained_bytes(const GpuReading& reading, std::uint64_t idle_bytes);

/// Bytes in use that graphics-only processes do not explain.
std::uint64_t settled_bytes(const GpuReading& reading);

/// The idle reading of each GPU: the lowest seen with no compute process on it, at most
/// kMaxIdleBytes.
class IdleMemory {
 public:
  void learn(const GpuReading& reading);
  std::optional<std::uint64_t> of(const std::string& uuid) const;

 private:
  std::map<std::string, std::uint64_t> lowest_;
};

/// "21.3 GiB", "312 MiB".
std::string bytes_in_words(std::uint64_t bytes);

}  // namespace pergpu::gpu
