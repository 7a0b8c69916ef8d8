// getrandom(2) gives up to 256 bytes at once and whole, once the kernel's pool is initialised,
// which it waits for.
#include "os/random.h"

#include <sys/random.h>

#include <array>
#include <cassert>

namespace pergpu::os {

std::string random_hex(std::size_t bytes) {
  std::array<unsigned char, 64> block{};
  assert(bytes <= block.size());
  [[maybe_unused]] const ssize_t n = ::getrandom(block.data(), bytes, 0);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) {
    text += kDigits[block[i] >> 4];
    text += kDigits[block[i] & 15];
  }
  return text;
}

}  // namespace pergpu::os
