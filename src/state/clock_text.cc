// localtime_r(), because people compare it with the clock on their wall.
#include "state/clock_text.h"

#include <fmt/format.h>

#include <ctime>

#include "timers.h"

namespace pergpu {

std::string clock_text(std::int64_t wall_ns, std::int64_t now_wall_ns) {
  const auto local = [](std::int64_t ns) {
    const std::time_t seconds = ns / kSecond;
    std::tm out{};
    ::localtime_r(&seconds, &out);
    return out;
  };
  const std::tm then = local(wall_ns);
  const std::tm now = local(now_wall_ns);
  const bool is_today = then.tm_yday == now.tm_yday && then.tm_year == now.tm_year;
  const std::string time = fmt::format("{:02}:{:02}:{:02}", then.tm_hour, then.tm_min, then.tm_sec);
  if (is_today) return time;
  return fmt::format("{:04}-{:02}-{:02} {}", then.tm_year + 1900, then.tm_mon + 1, then.tm_mday,
                     time);
}

}  // namespace pergpu
