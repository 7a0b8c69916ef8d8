// A computed order holds every number once, is the same for the same seed, and looks shuffled.
#include "share/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace pergpu::share {
namespace {

std::vector<std::uint64_t> order(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch = 0) {
  Permutation permutation(size, seed, epoch);
  std::vector<std::uint64_t> all(size);
  for (std::uint64_t i = 0; i < size; ++i) all[i] = permutation(i);
  return all;
}

TEST(Permutation, HasEveryNumberOnce) {
  for (std::uint64_t size = 1; size < 400; ++size) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      std::vector<std::uint64_t> all = order(size, seed);
      std::sort(all.begin(), all.end());
      for (std::uint64_t i = 0; i < size; ++i) ASSERT_EQ(all[i], i) << size << " " << seed;
    }
  }
}

TEST(Permutation, OfManyNumbersStaysInside) {
  for (std::uint64_t size : {std::uint64_t{1} << 40, (std::uint64_t{1} << 62) + 12345}) {
    Permutation permutation(size, 1, 2);
    for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_LT(permutation(size - 1 - i), size);
  }
}

TEST(Permutation, IsTheSameOnlyForTheSameSeedAndEpoch) {
  EXPECT_EQ(order(1000, 7, 3), order(1000, 7, 3));
  EXPECT_NE(order(1000, 7, 3), order(1000, 7, 4));
  EXPECT_NE(order(1000, 7, 3), order(1000, 8, 3));
}

TEST(Permutation, StaysWhatItWasInEarlierVersions) {
  EXPECT_EQ(order(10, 0), (std::vector<std::uint64_t>{9, 3, 1, 2, 0, 4, 7, 5, 8, 6}));
  EXPECT_EQ(Permutation(1'000'000, 1, 2)(999'999), 943'613u);
}

TEST(Permutation, PutsEachNumberAnywhere) {
  constexpr std::uint64_t kSize = 7;
  constexpr int kSeeds = 70'000;
  std::vector<std::vector<int>> seen(kSize, std::vector<int>(kSize));
  std::vector<std::vector<int>> next(kSize, std::vector<int>(kSize));
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::vector<std::uint64_t> all = order(kSize, seed);
    for (std::uint64_t i = 0; i < kSize; ++i) ++seen[i][all[i]];
    for (std::uint64_t i = 1; i < kSize; ++i) ++next[all[i - 1]][all[i]];
  }
  const double each = static_cast<double>(kSeeds) / kSize;
  for (std::uint64_t i = 0; i < kSize; ++i) {
    for (std::uint64_t j = 0; j < kSize; ++j) {
      EXPECT_NEAR(seen[i][j], each, 0.05 * each) << i << " at " << j;
      if (i != j) {
        EXPECT_NEAR(next[i][j], each, 0.05 * each) << j << " behind " << i;
      }
    }
  }
}

TEST(Permutation, NeighboursAreNotNeighboursAfterwards) {
  constexpr std::uint64_t kSize = 100'000;
  std::vector<std::uint64_t> all = order(kSize, 1);
  std::uint64_t near = 0;
  for (std::uint64_t i = 1; i < kSize; ++i) {
    std::uint64_t a = std::min(all[i], all[i - 1]);
    std::uint64_t b = std::max(all[i], all[i - 1]);
    near += b - a < kSize / 100;
  }
  EXPECT_NEAR(static_cast<double>(near), 0.0199 * kSize, 0.1 * 0.0199 * kSize);
}

TEST(Permutation, ManyAtOnceAreWhatTheyAreOneByOne) {
  for (std::uint64_t size : {1u, 2u, 7u, 64u, 1000u, 99991u}) {
    Permutation order(size, 3, 5);
    for (std::uint64_t count : {std::uint64_t{1}, std::uint64_t{8}, std::uint64_t{13}, size}) {
      std::vector<std::uint64_t> places;
      for (std::uint64_t i = 0; i < std::min(count, size); ++i) places.push_back(size - 1 - i);
      std::vector<std::uint64_t> expected;
      for (std::uint64_t place : places) expected.push_back(order(place));
      order.all(places);
      ASSERT_EQ(places, expected);
    }
  }
}

}  // namespace
}  // namespace pergpu::share
