// A count and what it counts: "1 job", "3 jobs".
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace pergpu {

/// `plural`: "" is the noun and an s.
template <std::integral Count>
std::string counted(Count count, std::string_view noun, std::string_view plural = "") {
  std::string text = std::to_string(count) + ' ';
  if (count == 1) return text.append(noun);
  return plural.empty() ? text.append(noun) + 's' : text.append(plural);
}

}  // namespace pergpu
