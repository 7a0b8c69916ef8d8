// getrandom(2) gives up to 256 bytes at once and whole, once the kernel's pool is initialized,
// which it waits for; a signal may end that wait.  Nothing secret can be made without it: then the
// program ends.
#include "os/random.h"

#include <array>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "os/system_calls.h"

namespace pergpu::os {

std::string random_hex(std::size_t bytes) {
  std::array<unsigned char, 64> block{};
  assert(bytes <= block.size());
  while (call::getrandom(block.data(), bytes) != static_cast<ssize_t>(bytes)) {
    if (errno == EINTR) continue;
    std::fprintf(stderr, "pergpu: can't get random bytes from the kernel: %s\n",
                 std::strerror(errno));
    std::abort();
  }
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) {
    text += kDigits[block[i] >> 4];
    text += kDigits[block[i] & 15];
  }
  return text;
}

}  // namespace pergpu::os
