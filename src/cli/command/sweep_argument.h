// What a user may have meant by the name of something that is no sweep file.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace pergpu::cli {

/// Not empty: `file` can't be a sweep file, or isn't there, and what to type instead.
std::string no_sweep_file(const std::string& file);

/// `pergpu run python3 -c …`, where `words[first]` is no option: it is a program, and what to type
/// instead.  "": it is none, or a sweep file is named.
std::string missing_dashes(const std::vector<std::string>& words, std::size_t first);

}  // namespace pergpu::cli
