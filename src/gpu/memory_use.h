// How much GPU memory an attempt uses, and when that is more than its limit.  Pure.
//
// No driver holds a process to a limit on a whole GPU, so the limit is watched: an attempt has its
// GPUs for itself, and what its processes hold there is what the driver reports of them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "gpu/inventory.h"

namespace pergpu::gpu {

struct MemoryQuestion {
  std::string gpu = {};        // UUID
  bool has_outsiders = false;  // others may use it, too
  std::function<bool(const GpuProcess&)> ours = {};
  std::function<std::uint64_t(const std::string& uuid)> idle_bytes = {};
};

/// Bytes on that GPU.  Where the driver does not say whose they are (in a container
/// its pids are the host's), everything above idle counts, unless others may use the GPU.  nullopt:
/// this look does not show it.
std::optional<std::uint64_t> memory_in_use(const GpuLook& look, const MemoryQuestion& question);

}  // namespace pergpu::gpu
