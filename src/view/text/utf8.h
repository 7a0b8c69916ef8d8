// UTF-8 one code point at a time, and how many terminal columns a text takes.
//
// The tables are ours and fixed: wcwidth() depends on the process's locale, and a view must give
// the same bytes for the same snapshot everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "os/utf8.h"

namespace pergpu::view {

inline constexpr std::uint32_t kInvalid = os::kInvalidCodePoint;
using os::next_code_point;

void append_utf8(std::string& out, std::uint32_t code_point);

/// Columns of a terminal: 0 for combining marks, 2 for wide ones.
int columns_of(std::uint32_t code_point);
int columns_of(std::string_view text);

/// `text` in at most `columns` columns; when something is left out the result ends in `mark`.
std::string cut(std::string_view text, int columns, std::string_view mark = "…");

/// `text` followed (or, to the right, preceded) by blanks up to `columns`.
std::string pad(std::string_view text, int columns, bool right = false);

}  // namespace pergpu::view
