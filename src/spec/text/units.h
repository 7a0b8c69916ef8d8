// Durations and sizes as people write them: "90s", "1d2h", "01:30:00"; "64GiB", "500MB".
// Bare numbers are refused: their unit, seconds or minutes, is easily mistaken.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "result.h"

namespace pergpu {

/// ms, s, m or min, h, d, w, each at most once and from large to small ("1d2h"); decimals are taken
/// ("1.5h"), and so are names and blanks ("2 hours 30 minutes"); or HH:MM:SS.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

/// B, KB MB GB TB (powers of 1000), KiB MiB GiB TiB and K M G T (powers of 1024), any case, also
/// behind a blank ("16 GB").
Result<std::uint64_t> parse_size(std::string_view text);

/// Shortest text that parse_duration() reads back: "1d2h", "250ms", "0s".
std::string format_duration(std::chrono::milliseconds d);
/// Shortest text that parse_size() reads back: "64GiB", "500MB", "123B".
std::string format_size(std::uint64_t bytes);

}  // namespace pergpu
