// The names that a path is made of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pergpu::os {

/// In the order in which they are entered, ".." among them; without "." and empty names.
std::vector<std::string> names_in(std::string_view path);

}  // namespace pergpu::os
