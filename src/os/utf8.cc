// Well-formed as Unicode has it: no overlong forms, no surrogates.
#include "os/utf8.h"

namespace pergpu::os {

std::uint32_t next_code_point(std::string_view text, std::size_t* at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::uint32_t lead = byte(*at);
  const std::size_t begin = (*at)++;
  if (lead < 0x80) return lead;
  std::size_t more = 0;
  std::uint32_t code = 0;
  std::uint32_t least = 0;
  if (lead >= 0xc2 && lead < 0xe0) {
    more = 1, code = lead & 0x1fu, least = 0x80;
  } else if (lead >= 0xe0 && lead < 0xf0) {
    more = 2, code = lead & 0x0fu, least = 0x800;
  } else if (lead >= 0xf0 && lead < 0xf5) {
    more = 3, code = lead & 0x07u, least = 0x10000;
  } else {
    return kInvalidCodePoint;
  }
  if (text.size() - begin <= more) return kInvalidCodePoint;
  for (std::size_t k = 1; k <= more; ++k) {
    if ((byte(begin + k) & 0xc0u) != 0x80) return kInvalidCodePoint;
    code = (code << 6) | (byte(begin + k) & 0x3fu);
  }
  if (code < least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
    return kInvalidCodePoint;
  *at = begin + more + 1;
  return code;
}

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    if (next_code_point(text, &at) == kInvalidCodePoint) return false;
  }
  return true;
}

}  // namespace pergpu::os
