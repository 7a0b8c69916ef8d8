// Rounding is towards what people would say: no ".0", no unit that adds nothing.
#include "job/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "duration.h"

namespace pergpu {
namespace {

// One decimal, without ".0".
std::string short_decimal(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.size() > 2 && text.compare(text.size() - 2, 2, ".0") == 0) text.resize(text.size() - 2);
  return text;
}

std::string pair_text(std::int64_t value, std::int64_t per_unit, const char* unit,
                      const char* sub_unit) {
  const std::int64_t rest = value % per_unit;
  if (rest == 0) return fmt::format("{}{}", value / per_unit, unit);
  return fmt::format("{}{}{}{}", value / per_unit, unit, rest, sub_unit);
}

}  // namespace

std::string duration_text(std::int64_t ns) {
  if (ns <= 0) return "0s";
  if (ns < kMillisecond) return fmt::format("{}us", std::max<std::int64_t>(1, ns / 1'000));
  if (ns < kSecond - kMillisecond / 2)
    return fmt::format("{}ms", (ns + kMillisecond / 2) / kMillisecond);
  if (ns < 10 * kSecond - kSecond / 20)
    return short_decimal(static_cast<double>(ns) / kSecond) + "s";
  const std::int64_t seconds = (ns + kSecond / 2) / kSecond;
  if (seconds < 60) return fmt::format("{}s", seconds);
  if (seconds < 3'600) return pair_text(seconds, 60, "m", "s");
  const std::int64_t minutes = (seconds + 30) / 60;
  if (minutes < 24 * 60) return pair_text(minutes, 60, "h", "m");
  return pair_text((minutes + 30) / 60, 24, "d", "h");
}

std::string size_text(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 1023.95 would print as "1024": the next unit says it better.
  while (value >= 1023.95 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", short_decimal(value), kUnits[unit]);
}

std::string ranges_text(const std::vector<int>& ascending) {
  std::string out;
  for (std::size_t i = 0; i < ascending.size();) {
    std::size_t last = i;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    out += (out.empty() ? "" : ",") + std::to_string(ascending[i]);
    if (last > i) out += "-" + std::to_string(ascending[last]);
    i = last + 1;
  }
  return out;
}

}  // namespace pergpu
