// Means of arrays in files: what is added, rounded and refused.
#include "share/average.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "os/fd.h"
#include "os/test_hooks.h"
#include "share/half.h"
#include "share/transform.h"

namespace pergpu::share {
namespace {

/// A file without a name, of these bytes.
class File {
 public:
  template <typename T>
  explicit File(const std::vector<T>& values, std::size_t before = 0)
      : fd_(::memfd_create("test", MFD_CLOEXEC)) {
    std::size_t size = values.size() * sizeof(T);
    EXPECT_EQ(::ftruncate(fd_.get(), static_cast<off_t>(before + size)), 0);
    EXPECT_EQ(::pwrite(fd_.get(), values.data(), size, static_cast<off_t>(before)),
              static_cast<ssize_t>(size));
  }
  int fd() const { return fd_.get(); }
  template <typename T>
  std::vector<T> values(std::size_t count, std::size_t before = 0) const {
    std::vector<T> found(count);
    EXPECT_EQ(::pread(fd_.get(), found.data(), count * sizeof(T), static_cast<off_t>(before)),
              static_cast<ssize_t>(count * sizeof(T)));
    return found;
  }

 private:
  os::UniqueFd fd_;
};

template <typename T>
std::vector<T> mean_of(Real real, const std::vector<std::vector<T>>& from,
                       std::vector<double> weights = {}) {
  std::vector<const std::byte*> data;
  for (const std::vector<T>& one : from) {
    data.push_back(reinterpret_cast<const std::byte*>(one.data()));
  }
  if (weights.empty()) weights.assign(from.size(), 1);
  std::vector<T> into(from[0].size());
  mean(real, data, weights, into.size(), reinterpret_cast<std::byte*>(into.data()));
  return into;
}

TEST(Average, IsTheSumByTheWeightsDividedByTheirSum) {
  EXPECT_EQ(mean_of<float>(Real::Float32, {{1, -2, 3}, {3, 4, 0}}),
            (std::vector<float>{2, 1, 1.5}));
  EXPECT_EQ(mean_of<float>(Real::Float32, {{1, -2}, {3, 4}}, {3, 1}),
            (std::vector<float>{1.5, -0.5}));
  EXPECT_EQ(mean_of<double>(Real::Float64, {{1e300}, {1e-300}, {1e300}}, {0, 5, 0}),
            (std::vector<double>{1e-300}));
  const double tiny = std::numeric_limits<double>::epsilon();
  EXPECT_EQ(mean_of<double>(Real::Float64, {{1 + 2 * tiny}, {1}}), (std::vector<double>{1 + tiny}))
      << "of doubles the sum is one, too";
}

void check_each_short_float() {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<std::uint16_t> halves = mean_of<std::uint16_t>(Real::Float16, {all});
  std::vector<std::uint16_t> bfloats = mean_of<std::uint16_t>(Real::BFloat16, {all});
  for (std::uint32_t i = 0; i < 65536; ++i) {
    bool no_half = (i & 0x7C00u) == 0x7C00u && (i & 0x3FFu) != 0;
    bool no_bfloat = (i & 0x7F80u) == 0x7F80u && (i & 0x7Fu) != 0;
    bool half_is_none = (halves[i] & 0x7C00u) == 0x7C00u && (halves[i] & 0x3FFu) != 0;
    bool bfloat_is_none = (bfloats[i] & 0x7F80u) == 0x7F80u && (bfloats[i] & 0x7Fu) != 0;
    ASSERT_TRUE(no_half ? half_is_none : halves[i] == i) << i;
    ASSERT_TRUE(no_bfloat ? bfloat_is_none : bfloats[i] == i) << i;
  }
}

TEST(Average, OfOneFileIsThatFileForEachHalfAndEachBfloat) {
  check_each_short_float();
  os::pretend_no_half_instructions(true);
  check_each_short_float();
  os::pretend_no_half_instructions(false);
}

TEST(Average, OfHalvesIsTheSameWithoutInstructionsForThem) {
  std::mt19937 random(5);
  std::vector<std::vector<std::uint16_t>> from(3, std::vector<std::uint16_t>(100'003));
  for (auto& one : from) {
    for (std::uint16_t& half : one)
      half = static_cast<std::uint16_t>(random() & 0xFBFFu);  // finite
  }
  std::vector<std::uint16_t> with = mean_of<std::uint16_t>(Real::Float16, from, {1, 0.3, 7});
  os::pretend_no_half_instructions(true);
  std::vector<std::uint16_t> without = mean_of<std::uint16_t>(Real::Float16, from, {1, 0.3, 7});
  os::pretend_no_half_instructions(false);
  EXPECT_EQ(with, without);
}

TEST(Average, OfShortFloatsIsRoundedOnceAndNotInBetween) {
  auto half = [](float value) { return half_of(value); };
  // 2048 + 1 is no half: a sum of halves would stay at 2048.
  EXPECT_EQ(mean_of<std::uint16_t>(Real::Float16, {{half(2048)}, {half(1)}, {half(1)}, {half(2)}}),
            (std::vector<std::uint16_t>{half(513)}));
  EXPECT_EQ(mean_of<std::uint16_t>(Real::Float16, {{half(65504)}, {half(65504)}}),
            (std::vector<std::uint16_t>{half(65504)}))
      << "nor is it infinite";
  EXPECT_EQ(mean_of<std::uint16_t>(Real::BFloat16,
                                   {{bfloat16_of(256)}, {bfloat16_of(1)}, {bfloat16_of(-2)}}),
            (std::vector<std::uint16_t>{bfloat16_of(85)}));
}

TEST(Average, OfFilesIsThatOfTheirValuesWhereverTheyLie) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> any(-10, 10);
  const std::size_t count = (std::size_t{9} << 20) / sizeof(float) + 3;  // more than two windows
  std::vector<std::vector<float>> values(3, std::vector<float>(count));
  for (auto& one : values) {
    for (float& value : one) value = any(random);
  }
  const std::size_t before[] = {0, 4097, 12345};  // one of them is aligned
  std::vector<File> files;
  std::vector<InFile> from;
  for (std::size_t k = 0; k < 3; ++k) {
    files.emplace_back(values[k], before[k]);
    from.push_back({.fd = files[k].fd(), .offset = before[k]});
  }
  const std::vector<double> weights = {1, 2, 0.5};
  File into(std::vector<char>(7, 'x'));
  Result<void> done =
      write_mean(Real::Float32, from, weights, count, {.fd = into.fd(), .offset = 7});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(into.values<char>(7), std::vector<char>(7, 'x'));
  EXPECT_EQ(into.values<float>(count, 7), mean_of<float>(Real::Float32, values, weights));
}

TEST(Average, OfNothingWritesNothing) {
  File empty(std::vector<char>{}), into(std::vector<char>{});
  std::vector<InFile> from = {{.fd = empty.fd()}};
  std::vector<double> weights = {1};
  EXPECT_TRUE(write_mean(Real::Float64, from, weights, 0, {.fd = into.fd()}));
  EXPECT_EQ(::lseek(into.fd(), 0, SEEK_END), 0);
}

TEST(Average, WhatIsNotAllInTheFileIsRefused) {
  File longer(std::vector<float>(100)), shorter(std::vector<float>(99)), into(std::vector<char>{});
  std::vector<InFile> from = {{.fd = longer.fd()}, {.fd = shorter.fd()}};
  std::vector<double> weights = {1, 1};
  Result<void> done = write_mean(Real::Float32, from, weights, 100, {.fd = into.fd()});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::Invalid);
  EXPECT_NE(done.error().message.find("the file has 396 bytes"), std::string::npos);
  from[1] = {.fd = -1};
  EXPECT_FALSE(write_mean(Real::Float32, from, weights, 100, {.fd = into.fd()}));
  from[1] = from[0];
  EXPECT_FALSE(write_mean(Real::Float32, from, weights, 100, {.fd = -1}));
}

}  // namespace
}  // namespace pergpu::share
