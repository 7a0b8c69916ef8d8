// How much room a file system has, and how much a program may take of what the kernel rations.
#pragma once

#include <cstdint>
#include <string>

#include "result.h"

namespace pergpu::os {

/// As this user finds it: what is kept back for root does not count as free.
struct Space {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t total_files = 0;  // 0: the file system does not count them
  std::uint64_t free_files = 0;
};
/// Of the file system that `path` lies on.  A network file system whose server is gone blocks.
Result<Space> space_of(const std::string& path);

inline constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

struct Limit {
  std::uint64_t soft = kUnlimited;
  std::uint64_t hard = kUnlimited;
};
/// What `ulimit` shows: of this process, and so of what it starts.
struct ProcessLimits {
  Limit open_files = {};
  Limit processes = {};  // and threads, of all of this user's programs
  Limit address_space_bytes = {};
  Limit file_bytes = {};
  Limit cpu_seconds = {};
};
ProcessLimits own_limits();

}  // namespace pergpu::os
