// The looks of numbers, shared by the readers whose libraries leave typing to us.
#pragma once

#include <cstdint>
#include <string_view>

namespace pergpu {

/// -?digits, no leading zero: an integer of JSON.
bool looks_like_json_integer(std::string_view text);
/// Any number of JSON.
bool looks_like_json_number(std::string_view text);

/// Of a word whose type was not given.  Only the usual spellings of a number are one: as JSON,
/// Python and printf write it ("0.1", "1.0", "1e-05") or by hand ("1e-4", "1.0e-4"). Others would
/// lose what was written: the version 3.10, the commits 0e11111 and 12e4567, 007.
enum class NumberWord : std::uint8_t { None, Int, Float };
NumberWord number_word(std::string_view text);

/// REQUIRES: an optional sign and decimal digits.  Saturates at the ends of 64 bits.
std::int64_t to_integer(std::string_view text);
/// REQUIRES: an optional sign, digits, at most one point and exponent.  May be infinite.
double to_double(std::string_view text);

/// Integers beyond this lose digits in a double.
inline constexpr std::int64_t kMaxExactInteger = std::int64_t{1} << 53;

}  // namespace pergpu
