// What a text of `outputs` may hold beside `*`, `?` and `[…]`.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pergpu {

inline constexpr std::size_t kMostNameBytes = 255;  // of a file

/// "", or what is wrong with a text of `outputs`, as text to follow the key: braces and extended
/// patterns of a shell, which would be parts of a name, a `[` that is never closed, a name that no
/// file can have.  Placeholders may stand anywhere.
std::string why_no_output(std::string_view text);

}  // namespace pergpu
