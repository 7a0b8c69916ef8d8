// Text in UTF-8 as bytes: where characters begin.  os/utf8.h reads the characters.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pergpu {

/// A byte of a character, but not its first.
constexpr bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0u) == 0x80; }

/// The beginning of `text`: at most `most` bytes, and no part of a character.
constexpr std::string_view whole_characters(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && is_continuation(text[most])) --most;
  return text.substr(0, most);
}

/// The same, with "…" behind it when something was left out.
inline std::string abbreviated(std::string_view text, std::size_t most) {
  const std::string_view begin = whole_characters(text, most);
  return std::string(begin) + (begin.size() < text.size() ? "…" : "");
}

}  // namespace pergpu
