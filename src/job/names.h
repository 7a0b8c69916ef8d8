// Names of enumerators, both ways, from one table: a name that can be written can be read back.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace pergpu {

/// The enumerator of `all` whose to_string() is `name`.
template <typename Enum, std::size_t N>
std::optional<Enum> enumerator_of(std::string_view name, const Enum (&all)[N]) {
  for (Enum e : all) {
    if (to_string(e) == name) return e;
  }
  return std::nullopt;
}

}  // namespace pergpu
