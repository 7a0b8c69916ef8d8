// How an AMD GPU is named: by what ROCR_VISIBLE_DEVICES takes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pergpu::gpu {

/// Of the text of the kernel's `unique_id` ("18a4d2a7b0c1e3f5"): "GPU-18a4d2a7b0c1e3f5".  nullopt:
/// it has none.
std::optional<std::string> amd_uuid(std::string_view unique_id);

/// Whether `uuid` has that form.  NVIDIA's has dashes, and neither its beginning nor an index looks
/// like this.
bool is_amd_uuid(std::string_view uuid);
/// All of them; false without any.
bool are_amd_uuids(const std::vector<std::string>& uuids);

}  // namespace pergpu::gpu
