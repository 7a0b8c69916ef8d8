// The looks of numbers, shared by the readers whose libraries leave typing to us.
#pragma once

#include <cstdint>
#include <string_view>

namespace pergpu {

/// -?digits, no leading zero: an integer of JSON.
bool looks_like_json_integer(std::string_view text);
/// Any number of JSON.
bool looks_like_json_number(std::string_view text);

/// REQUIRES: an optional sign and decimal digits.  Saturates at the ends of 64 bits.
std::int64_t to_integer(std::string_view text);
/// REQUIRES: an optional sign, digits, at most one point and exponent.  May be infinite.
double to_double(std::string_view text);

}  // namespace pergpu
