// Durations, sizes and sets of numbers as people read them: "12h", "1m30s", "33.1 GiB", "0-3,7".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pergpu {

/// The two largest units: "1d2h", "12h", "1h30m", "45s", "4.2s", "350ms".  Negative: "0s".
std::string duration_text(std::int64_t ns);

/// Binary units, at most one decimal: "33.1 GiB", "32 GiB", "512 B".
std::string size_text(std::uint64_t bytes);

/// "0-3,7"
std::string ranges_text(const std::vector<int>& ascending);

}  // namespace pergpu
