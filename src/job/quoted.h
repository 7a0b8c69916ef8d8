// What a line says itself, apart from what it quotes.  Pure.
#pragma once

#include <string>
#include <string_view>

namespace pergpu {

/// With `value` for each part in '…', "…", `…`, ‘…’, “…” or «…»: names, paths and values that may
/// be anything.  An apostrophe opens nothing, and what follows a quote that stays open is quoted,
/// too.
std::string replace_quoted(std::string_view line, std::string_view value);

inline std::string without_quoted(std::string_view line) { return replace_quoted(line, {}); }

}  // namespace pergpu
