// A shuffled order of 0 … n-1 that is computed, not stored: place i of an epoch is known at once,
// so a loader goes on in the middle of an epoch, and several loaders share one order, without any
// of them making a list of n numbers.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace pergpu::share {

/// A value that depends on all bits of `x` (the finaliser of SplitMix64: Steele, Lea, Flood 2014).
constexpr std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class Permutation {
 public:
  /// `size` > 0.  Equal arguments give the same order on all machines.
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch);

  /// What stands at place `i` < size.
  std::uint64_t operator()(std::uint64_t i) const;

  /// What stands at each of `places`, in place.  Several at a time: a processor waits for one of
  /// them as long as for eight.
  void all(std::span<std::uint64_t> places) const;

 private:
  static constexpr int kRounds = 8;

  std::uint64_t size_;
  std::uint64_t rows_;
  std::uint64_t columns_;
  std::array<std::uint64_t, kRounds> keys_ = {};
};

}  // namespace pergpu::share
