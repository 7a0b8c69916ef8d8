// Numbers of JSON that another process wrote: what does not fit is refused, never cut off.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "ids.h"

namespace pergpu::store {

/// Whether it is a whole number that an `Int` can hold.
template <std::integral Int>
bool is_whole(const nlohmann::json& j) {
  if (j.is_number_unsigned()) return std::in_range<Int>(j.get<std::uint64_t>());
  return j.is_number_integer() && std::in_range<Int>(j.get<std::int64_t>());
}

/// Throws std::invalid_argument where it is none.
template <std::integral Int>
Int whole(const nlohmann::json& j) {
  if (!is_whole<Int>(j)) throw std::invalid_argument(fmt::format("{} is out of place", j.dump()));
  return j.is_number_unsigned() ? static_cast<Int>(j.get<std::uint64_t>())
                                : static_cast<Int>(j.get<std::int64_t>());
}

/// Whether it is a number that a float can hold.
inline bool is_single(const nlohmann::json& j) {
  return j.is_number() && std::abs(j.get<double>()) <= std::numeric_limits<float>::max();
}

/// Throws std::invalid_argument where it is none.
inline float single(const nlohmann::json& j) {
  if (!is_single(j)) throw std::invalid_argument(fmt::format("{} is out of place", j.dump()));
  return j.get<float>();
}

inline Instant instant_of(const nlohmann::json& j) {
  return {.wall_ns = whole<std::int64_t>(j.at(0)), .boot_ns = whole<std::int64_t>(j.at(1))};
}

}  // namespace pergpu::store
