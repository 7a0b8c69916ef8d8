// Minutes of an attempt as bytes: what the store keeps of its usage.
//
// Byte 0 is the format (1).  Then for each bucket, little-endian: seconds since the row's instant
// (u32), readings (u16), throttle (u32), which measures are known (u16, a bit each), and for each
// of those count (u16), mean, least and most (float).  So a minute takes at most 12 + 11 * 14 = 166
// bytes, without a GPU 96, and an hour of an attempt not quite 10 kB, or 6.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "job/usage.h"
#include "result.h"

namespace pergpu {

inline constexpr std::size_t kMostMinuteBytes = 12 + kMeasures * 14;

/// REQUIRES: each begins at `from_ns` or within 2^32 s after it.
std::string minutes_to_bytes(std::span<const UsageBucket> minutes, std::int64_t from_ns);

/// ErrorKind::Corrupt: it is none.  `from_ns` as it was written, or another zero of time.  Measures
/// of a later version are passed over.
Result<std::vector<UsageBucket>> minutes_of_bytes(std::string_view bytes, std::int64_t from_ns);

}  // namespace pergpu
