// Well-formed as Unicode has it: no overlong forms, no surrogates.
#include "os/utf8.h"

#include <cstddef>

namespace pergpu::os {

bool is_utf8(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<unsigned char>(text[i]);
    std::size_t more = 0;
    unsigned int code = 0;
    unsigned int least = 0;
    if (lead < 0x80) {
      ++i;
      continue;
    }
    if (lead >= 0xc2 && lead < 0xe0) {
      more = 1, code = lead & 0x1fu, least = 0x80;
    } else if (lead >= 0xe0 && lead < 0xf0) {
      more = 2, code = lead & 0x0fu, least = 0x800;
    } else if (lead >= 0xf0 && lead < 0xf5) {
      more = 3, code = lead & 0x07u, least = 0x10000;
    } else {
      return false;
    }
    if (text.size() - i <= more) return false;
    for (std::size_t k = 1; k <= more; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xc0u) != 0x80) return false;
      code = (code << 6) | (next & 0x3fu);
    }
    if (code < least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
    i += more + 1;
  }
  return true;
}

}  // namespace pergpu::os
