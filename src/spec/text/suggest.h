// "did you mean": the known name nearest to a mistyped one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pergpu {

/// Insertions, deletions, substitutions and swaps of neighbors that lead from `a` to `b`.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The nearest of `known`, else the only one that begins with `name`; "": none was meant.  Case and
/// `-` for `_` count nothing.
std::string_view nearest(std::string_view name, const std::vector<std::string_view>& known);

/// "; did you mean `x`?" or "".
std::string did_you_mean(std::string_view name, const std::vector<std::string_view>& known);

/// "`a`, `b` or `c`"
std::string one_of(const std::vector<std::string_view>& names);

}  // namespace pergpu
