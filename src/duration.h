// Units of time, in nanoseconds.
#pragma once

#include <cstdint>

namespace pergpu {

inline constexpr std::int64_t kMillisecond = 1'000'000;
inline constexpr std::int64_t kSecond = 1'000'000'000;

}  // namespace pergpu
