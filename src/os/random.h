// Names and secrets that can't be guessed.
#pragma once

#include <cstddef>
#include <string>

namespace pergpu::os {

/// `bytes` random bytes, two hexadecimal digits each.  Where the kernel gives none the program
/// aborts.  REQUIRES: bytes <= 64.
std::string random_hex(std::size_t bytes);

}  // namespace pergpu::os
