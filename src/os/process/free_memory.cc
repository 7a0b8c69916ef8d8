// A group's usage has its page cache in it, which it gives back when it needs room: the part that
// was not used lately counts as free.
#include "os/process/free_memory.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "os/fs/file.h"
#include "os/fs/space.h"
#include "os/process/own_cgroups.h"

namespace pergpu::os {
namespace {

constexpr std::size_t kLongestMemoryFile = 64 * 1024;

/// The number behind `name` ("" : at the begin) in a small file.
std::optional<std::uint64_t> number(const std::string& path, std::string_view name = "") {
  Result<std::string> text = read_file(path, kLongestMemoryFile);
  if (!text) return std::nullopt;
  std::size_t at = name.empty() ? 0 : text->find(name);
  if (at == std::string::npos) return std::nullopt;
  at = text->find_first_not_of(" \t", at + name.size());
  if (at == std::string::npos) return std::nullopt;
  std::uint64_t value = 0;
  auto [end, ec] = std::from_chars(text->data() + at, text->data() + text->size(), value);
  if (ec != std::errc{} || end == text->data() + at) return std::nullopt;  // "max"
  return value;
}

struct Files {
  const char* controller;
  const char* limit;
  const char* usage;
};
constexpr Files kVersions[] = {{"", "/memory.max", "/memory.current"},
                               {"memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes"}};

}  // namespace

std::uint64_t free_memory() {
  std::uint64_t free = number("/proc/meminfo", "MemAvailable:").value_or(kUnlimited / 4096) * 1024 +
                       number("/proc/meminfo", "SwapFree:").value_or(0) * 1024;
  for (const Files& files : kVersions) {
    for (const std::string& folder : own_cgroups(files.controller)) {
      std::optional<std::uint64_t> limit = number(folder + files.limit);
      std::optional<std::uint64_t> usage = number(folder + files.usage);
      if (!limit || !usage) continue;
      std::uint64_t cache = number(folder + "/memory.stat", "inactive_file").value_or(0);
      std::uint64_t needed = *usage - std::min(cache, *usage);
      free = std::min(free, *limit - std::min(needed, *limit));
    }
  }
  return free;
}

}  // namespace pergpu::os
