// Whole numbers, and those in text: names of files and folders, lines of the kernel, words of
// programs.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace pergpu {

/// The number that the text is, and nothing beside it: no blank, no plus sign, no other text behind
/// it.  nullopt: it is none, or does not fit the type.
template <std::integral Number>
std::optional<Number> whole_number(std::string_view text, int base = 10) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace pergpu
