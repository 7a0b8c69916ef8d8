// Instants as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace pergpu {

/// "14:02:11" of the machine's time zone, or with the day where that is another one than now.
std::string clock_text(std::int64_t wall_ns, std::int64_t now_wall_ns);

}  // namespace pergpu
