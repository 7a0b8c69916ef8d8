// How much memory can still be had.
#pragma once

#include <cstdint>

namespace pergpu::os {

/// Bytes: what the kernel expects to be able to give without killing anybody (MemAvailable and free
/// swap), at most what this process's control groups leave it.  A moment later it may be less.
std::uint64_t free_memory();

}  // namespace pergpu::os
