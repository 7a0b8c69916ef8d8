// All chance of a simulation: one seed, the same throws on every machine.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

namespace pergpu::simulation {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}

  /// 0 … n - 1.
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n));
  }
  /// low … high
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  bool percent(std::int64_t n) { return below(100) < n; }
  /// Each order of magnitude is as likely as the others.  REQUIRES: 0 < low <= high.
  std::int64_t spread(std::int64_t low, std::int64_t high) {
    std::int64_t top = low;
    const std::int64_t octaves = 63 - __builtin_clzll(static_cast<std::uint64_t>(high / low));
    top <<= below(octaves + 1);
    return std::min(high, between(top, 2 * top - 1));
  }
  template <typename T>
  T pick(std::initializer_list<T> values) {
    return *(values.begin() + below(static_cast<std::int64_t>(values.size())));
  }
  template <typename T>
  const T& of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(below(static_cast<std::int64_t>(values.size())))];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace pergpu::simulation
