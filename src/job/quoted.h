// What a line says itself, apart from what it quotes.  Pure.
#pragma once

#include <string>
#include <string_view>

namespace pergpu {

/// Without what stands in '…', "…" and `…`: names, paths and values that may be anything.  An
/// apostrophe opens nothing, and what follows a quote that stays open is quoted, too.
std::string without_quoted(std::string_view line);

}  // namespace pergpu
