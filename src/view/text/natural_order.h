// Names with numbers in them, in the order of people: "gpu10" after "gpu9.1".
#pragma once

#include <compare>
#include <string_view>

namespace pergpu::view {

/// What to compare in place of the name.
struct NaturalName {
  std::string_view text = {};
  bool operator==(const NaturalName&) const = default;
  std::strong_ordering operator<=>(const NaturalName& other) const;
};

}  // namespace pergpu::view
