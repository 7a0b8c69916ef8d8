// Who has a GPU's device file open, and how much of its memory is theirs: from /proc/<pid>/fdinfo,
// where the kernel's drivers report it (drm-usage-stats of the kernel's documentation).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pergpu::gpu {

/// One opened device file, however many descriptors there are of it.
struct DrmClient {
  std::int32_t pid = 0;     // of one that has it
  std::string driver = {};  // "amdgpu"
  std::string pci = {};     // "0000:65:00.0"
  std::uint64_t id = 0;     // unique among those of that GPU
  std::uint64_t vram_bytes = 0;
  bool only_draws = false;
  bool operator==(const DrmClient&) const = default;
};

/// Of the text of one file; its pid is 0.  nullopt: it is no GPU's, or does not say enough.
std::optional<DrmClient> drm_client_in(std::string_view fdinfo);

/// Those of `driver`, each once, below `proc` ("/proc"), as far as this user may look: own uid, all
/// for root.  One that several processes have is that of the first of them.
std::vector<DrmClient> drm_clients(const std::string& proc, std::string_view driver);

}  // namespace pergpu::gpu
