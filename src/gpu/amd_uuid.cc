// ROCm's runtime writes the id with leading zeros, and does not distinguish 0 from "none".
#include "gpu/amd_uuid.h"

#include <algorithm>

namespace pergpu::gpu {

namespace {

constexpr std::string_view kPrefix = "GPU-";
constexpr std::size_t kDigits = 16;

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

std::optional<std::string> amd_uuid(std::string_view unique_id) {
  std::string_view digits = unique_id.substr(0, unique_id.find('\n'));
  if (digits.starts_with("0x")) digits.remove_prefix(2);
  const bool is_zero = std::ranges::all_of(digits, [](char c) { return c == '0'; });
  if (is_zero || digits.size() > kDigits || !std::ranges::all_of(digits, is_hex)) {
    return std::nullopt;
  }
  return std::string(kPrefix) + std::string(kDigits - digits.size(), '0') + std::string(digits);
}

bool is_amd_uuid(std::string_view uuid) {
  if (!uuid.starts_with(kPrefix)) return false;
  uuid.remove_prefix(kPrefix.size());
  return uuid.size() == kDigits && std::ranges::all_of(uuid, is_hex);
}

bool are_amd_uuids(const std::vector<std::string>& uuids) {
  return !uuids.empty() && std::ranges::all_of(uuids, is_amd_uuid);
}

}  // namespace pergpu::gpu
