// What NVML reports of versions and of how a GPU was set up: what an administrator chose and a job
// has to live with.
#include <fmt/format.h>

#include <array>
#include <cstddef>

#include "gpu/nvml.h"

namespace pergpu::gpu {
namespace {

std::optional<bool> flag_of(int code, unsigned value) {
  return code == nvml_code::kSuccess ? std::optional(value != 0) : std::nullopt;
}

}  // namespace

// "12.550.54.15" of a library of driver 550.54.15: the CUDA version comes first, whose number is
// far below that of any driver.
std::string driver_of_library(std::string_view version) {
  const std::size_t dot = version.find('.');
  const bool has_more =
      dot != std::string_view::npos && version.find('.', dot + 1) != std::string_view::npos;
  if (has_more && dot <= 2) version.remove_prefix(dot + 1);
  return std::string(version);
}

std::string Nvml::library_version() {
  std::array<char, 96> buffer = {};
  if (call_.library_version == nullptr) return {};
  if (call_.library_version(buffer.data(), static_cast<unsigned>(buffer.size())) != 0) return {};
  buffer.back() = '\0';
  return driver_of_library(buffer.data());
}

std::string Nvml::cuda_version() {
  int version = 0;
  if (call_.cuda_version == nullptr || call_.cuda_version(&version) != 0) return {};
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

NvmlSettings Nvml::settings(NvmlDevice device) {
  NvmlSettings settings;
  int persistent = 0;
  if (call_.persistence != nullptr) {
    const int code = call_.persistence(device, &persistent);
    settings.persistent = flag_of(code, static_cast<unsigned>(persistent));
  }
  unsigned now = 0;
  unsigned pending = 0;
  if (call_.mig_mode != nullptr) {
    const int code = call_.mig_mode(device, &now, &pending);
    settings.mig = flag_of(code, now);
    settings.mig_pending = flag_of(code, pending);
  }
  int mode = 0;
  if (call_.compute_mode != nullptr && call_.compute_mode(device, &mode) == nvml_code::kSuccess) {
    settings.compute_mode = mode;
  }
  return settings;
}

}  // namespace pergpu::gpu
