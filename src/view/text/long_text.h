// Texts of any length: those of which only the beginning is of use, and lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "view/text/style.h"

namespace pergpu::view {

/// Columns that a table may take: those of the terminal, or 200 where there is none.
int room_of(const Style& style);

/// A value of a table: enough of it to distinguish it from others.
std::string short_value(std::string_view text, const Style& style);

/// The text; of a long one the beginning, and how long it is.
std::string shortened(const std::string& text);

/// Why a job ended as it did; of a long reason its beginning and its end, which says what is wrong
/// with what is named before it.
std::string short_reason(const std::string& reason);

/// A line of a message, which may repeat what it's about: of a long one the beginning and the end,
/// and how much is left out.  Two paths of the longest kind still fit.
std::string short_line(std::string_view line);

/// Without their ends.
std::vector<std::string> split_lines(std::string_view text);

}  // namespace pergpu::view
