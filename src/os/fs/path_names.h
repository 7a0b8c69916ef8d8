// The names that a path is made of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pergpu::os {

inline constexpr int kMostLinks = 40;  // followed in a path; as the kernel

/// In the order in which they are entered, ".." among them; without "." and empty names.
std::vector<std::string> names_in(std::string_view path);

/// The part of `path` that lies below the folder `root`; "": it lies elsewhere, or is the folder.
std::string path_below(const std::string& root, const std::string& path);

}  // namespace pergpu::os
