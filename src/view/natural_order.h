// Names that end in a number, in the order of people: "gpu10" after "gpu9".
#pragma once

#include <string_view>
#include <utility>

namespace pergpu::view {

/// What to compare in place of the name; it points into it.  -1: there is no number.
std::pair<std::string_view, long> natural_key(std::string_view name);

}  // namespace pergpu::view
