// Paths and environments are bytes; what is sent as JSON has to be text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pergpu::os {

inline constexpr std::uint32_t kInvalidCodePoint = 0xffffffff;

/// The code point at `*at`, which is moved behind it.  kInvalidCodePoint (one byte is consumed)
/// when the bytes are not UTF-8.  REQUIRES: *at < text.size().
std::uint32_t next_code_point(std::string_view text, std::size_t* at);

bool is_utf8(std::string_view text);

}  // namespace pergpu::os
