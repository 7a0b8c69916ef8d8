// Rounding is done before the units are chosen, so that 59.97 s reads "1m00s" and never "60s".
#include "view/text/quantity.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "api/snapshot.h"

namespace pergpu::view {

std::string duration_text(double seconds) {
  if (!(seconds >= 0)) return "-";
  if (seconds < 9.95) return fmt::format("{:.1f}s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(std::fmin(seconds, 1e15)));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  return fmt::format("{}d{:02}h", whole / 86400, whole / 3600 % 24);
}

std::string date_and_time(std::int64_t wall_ns, std::int64_t utc_offset_s) {
  if (wall_ns == 0) return "-";
  std::string text = rfc3339(wall_ns + utc_offset_s * 1'000'000'000).substr(0, 19);
  text[10] = ' ';
  return text;
}

std::string time_of_day(std::int64_t wall_ns, std::int64_t utc_offset_s) {
  return wall_ns == 0 ? "-" : date_and_time(wall_ns, utc_offset_s).substr(11);
}

std::string size_text(std::int64_t bytes) {
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string number_text(double value) {
  if (std::isfinite(value) && value == std::floor(value) && std::fabs(value) < 1e15) {
    return fmt::format("{:.0f}", value == 0 ? 0.0 : value);
  }
  return fmt::format("{:.5g}", value);
}

}  // namespace pergpu::view
