// Durations, times of day, sizes and numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace pergpu::view {

/// "0.4s", "12s", "2m03s", "1h02m", "3d04h"; "-" when negative.
std::string duration_text(double seconds);

/// "13:00:05" in the zone that is `utc_offset_s` east of UTC; "-" for 0.
std::string time_of_day(std::int64_t wall_ns, std::int64_t utc_offset_s);

/// "2026-11-21 13:00:05"; "-" for 0.
std::string date_and_time(std::int64_t wall_ns, std::int64_t utc_offset_s);

/// "512 B", "21.3 GiB".
std::string size_text(std::int64_t bytes);

/// At most five significant digits, integers up to 15 digits in full: "0.41235", "1e-07", "13000".
std::string number_text(double value);

}  // namespace pergpu::view
