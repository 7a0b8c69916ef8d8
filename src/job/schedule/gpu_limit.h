// How far a job may pass its `gpu_memory`.  Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace pergpu {

/// An attempt is ended when it uses more than this on one of its GPUs: the limit and 1/16 of it, at
/// least 512 MiB, because a limit is thought of as the program's tensors, and each process has a
/// CUDA context (300 to 500 MiB) besides.
constexpr std::uint64_t ended_above(std::uint64_t limit_bytes) {
  return limit_bytes + std::max<std::uint64_t>(limit_bytes / 16, 512u << 20);
}

}  // namespace pergpu
