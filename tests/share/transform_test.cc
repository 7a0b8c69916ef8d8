// Images on their way into a batch: every pixel where it belongs, every value as IEEE 754 rounds
// it.
#include "share/transform.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "share/permutation.h"

namespace pergpu::share {
namespace {

/// Each byte tells where it is: row, column, channel.
std::vector<std::byte> image_of(const ImageTransform& t) {
  std::vector<std::byte> image;
  for (std::uint32_t y = 0; y < t.height; ++y) {
    for (std::uint32_t x = 0; x < t.width; ++x) {
      for (std::uint32_t c = 0; c < t.channels; ++c) {
        image.push_back(std::byte(1 + y * 40 + x * 4 + c));
      }
    }
  }
  return image;
}

ImageKernel kernel_of(const ImageTransform& transform) {
  Result<ImageKernel> kernel = ImageKernel::make(transform);
  EXPECT_TRUE(kernel) << kernel.error().message;
  return std::move(*kernel);
}

std::vector<std::byte> applied(const ImageTransform& transform, std::uint64_t chance) {
  ImageKernel kernel = kernel_of(transform);
  std::vector<std::byte> result(transform.out_bytes());
  kernel.apply(image_of(transform).data(), result.data(), chance);
  return result;
}

constexpr std::uint32_t kRows = 5;
constexpr std::uint32_t kColumns = 6;
constexpr std::uint32_t kChannels = 3;

ImageTransform bytes() {
  ImageTransform t;
  t.height = kRows;
  t.width = kColumns;
  t.channels = kChannels;
  t.type = Type::UInt8;
  return t;
}

TEST(ImageKernel, PutsTheChannelsFirst) {
  std::vector<std::byte> result = applied(bytes(), 0);
  std::vector<std::byte> image = image_of(bytes());
  std::size_t at = 0;
  for (std::uint32_t c = 0; c < kChannels; ++c) {
    for (std::uint32_t pixel = 0; pixel < kRows * kColumns; ++pixel) {
      ASSERT_EQ(result[at++], image[pixel * kChannels + c]);
    }
  }
}

TEST(ImageKernel, CutsFromTheMiddleAndPadsWithZeros) {
  ImageTransform t = bytes();
  t.crop_height = kRows + 2;
  t.crop_width = kColumns - 2;
  t.padding = 1;
  std::vector<std::byte> result = applied(t, ~std::uint64_t{0});
  std::vector<std::byte> image = image_of(t);
  for (std::uint32_t y = 0; y < t.crop_height; ++y) {
    for (std::uint32_t x = 0; x < t.crop_width; ++x) {
      bool inside = y >= 1 && y <= kRows;
      std::byte expected = inside ? image[((y - 1) * kColumns + x + 1) * kChannels] : std::byte{0};
      ASSERT_EQ(result[y * t.crop_width + x], expected) << y << " " << x;
    }
  }
}

TEST(ImageKernel, CutsAnywhereAndEveryPlaceComesUp) {
  ImageTransform t = bytes();
  t.crop_height = 4;
  t.crop_width = 5;
  t.padding = 1;
  t.random_crop = true;
  t.random_flip = true;
  ImageKernel kernel = kernel_of(t);
  std::vector<std::byte> image = image_of(t);
  std::set<std::vector<std::byte>> seen;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    std::vector<std::byte> result(t.out_bytes());
    kernel.apply(image.data(), result.data(), mixed(i));
    seen.insert(result);
    std::vector<std::byte> again(t.out_bytes());
    kernel.apply(image.data(), again.data(), mixed(i));
    ASSERT_EQ(result, again);
  }
  // 5 + 2 - 4 + 1 tops, 6 + 2 - 5 + 1 lefts, turned round or not.
  EXPECT_EQ(seen.size(), 4u * 4u * 2u);
}

TEST(ImageKernel, TurnsAboutHalfOfThemRound) {
  ImageTransform t = bytes();
  t.random_flip = true;
  std::vector<std::byte> plain = applied(bytes(), 0);
  int turned = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    std::vector<std::byte> result = applied(t, mixed(i));
    if (result == plain) continue;
    ++turned;
    for (std::uint32_t y = 0; y < kRows; ++y) {
      for (std::uint32_t x = 0; x < kColumns; ++x) {
        ASSERT_EQ(result[y * kColumns + x], plain[y * kColumns + kColumns - 1 - x]);
      }
    }
  }
  EXPECT_NEAR(turned, 1000, 100);
}

TEST(ImageKernel, NormalisesEachChannel) {
  ImageTransform t = bytes();
  t.mean = {0.5f, 0.25f, 0.0f};
  t.deviation = {0.5f, 1.0f, 2.0f};
  for (Type type : {Type::Float32, Type::Float16, Type::BFloat16}) {
    t.type = type;
    std::vector<std::byte> result = applied(t, 0);
    std::vector<std::byte> image = image_of(t);
    for (std::uint32_t c = 0; c < kChannels; ++c) {
      for (std::uint32_t pixel = 0; pixel < kRows * kColumns; ++pixel) {
        auto byte = static_cast<float>(std::to_integer<int>(image[pixel * kChannels + c]));
        float expected = (byte * (1.0f / 255.0f) - t.mean[c]) / t.deviation[c];
        std::uint32_t bits = 0;
        std::memcpy(&bits, &result[(c * kRows * kColumns + pixel) * size_of(type)], size_of(type));
        if (type == Type::Float32) {
          ASSERT_EQ(bits, std::bit_cast<std::uint32_t>(expected));
        } else {
          ASSERT_EQ(bits, type == Type::Float16 ? half_of(expected) : bfloat16_of(expected));
        }
      }
    }
  }
}

TEST(ImageKernel, WhatDoesNotFitIsRefusedWithTheNumbers) {
  ImageTransform wide = bytes();
  wide.crop_width = 9;
  wide.padding = 1;
  EXPECT_NE(ImageKernel::make(wide).error().message.find("crop of 5 x 9"), std::string::npos);
  ImageTransform few = bytes();
  few.type = Type::Float32;
  few.mean = {0.5f};
  EXPECT_NE(ImageKernel::make(few).error().message.find("3 channels, not 1"), std::string::npos);
  ImageTransform none = bytes();
  none.type = Type::Float32;
  none.deviation = {1.0f, 0.0f, 1.0f};
  EXPECT_FALSE(ImageKernel::make(none));
  ImageTransform normal = bytes();
  normal.mean = {0, 0, 0};
  EXPECT_FALSE(ImageKernel::make(normal));
  ImageTransform huge = bytes();
  huge.height = ~0u;
  EXPECT_FALSE(ImageKernel::make(huge));
  EXPECT_FALSE(ImageKernel::make(ImageTransform{}));
}

/// The value of a half, by its definition.
double value_of_half(std::uint16_t half) {
  int exponent = half >> 10 & 31;
  double fraction = (half & 1023) / 1024.0;
  double value =
      exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
  return half & 0x8000 ? -value : value;
}

TEST(Half, IsTheNearestAndTheEvenOneOfTwo) {
  for (std::uint32_t half = 0; half < 0x7c00; ++half) {  // all that are finite
    auto it = static_cast<std::uint16_t>(half);
    double value = value_of_half(it);
    ASSERT_EQ(half_of(static_cast<float>(value)), it);
    ASSERT_EQ(half_of(static_cast<float>(-value)), it | 0x8000);
    if (half + 1 == 0x7c00) break;
    double middle = (value + value_of_half(static_cast<std::uint16_t>(half + 1))) / 2;
    auto exact = static_cast<float>(middle);
    ASSERT_EQ(static_cast<double>(exact), middle);
    ASSERT_EQ(half_of(exact), half % 2 == 0 ? half : half + 1);
    ASSERT_EQ(half_of(std::nextafter(exact, 0.0f)), half);
    ASSERT_EQ(half_of(std::nextafter(exact, 1e6f)), half + 1);
  }
  EXPECT_EQ(half_of(65519.99f), 0x7bff);
  EXPECT_EQ(half_of(65520.0f), 0x7c00);
  EXPECT_EQ(half_of(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(half_of(std::nanf("")) & 0x7e00, 0x7e00);
}

TEST(BFloat16, IsTheNearestAndTheEvenOneOfTwo) {
  EXPECT_EQ(bfloat16_of(1.0f), 0x3f80);
  EXPECT_EQ(bfloat16_of(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(bfloat16_of(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(bfloat16_of(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(bfloat16_of(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(bfloat16_of(-std::numeric_limits<float>::infinity()), 0xff80);
  EXPECT_TRUE((bfloat16_of(std::bit_cast<float>(0x7f800001u)) & 0x7f) != 0) << "still no number";
}

}  // namespace
}  // namespace pergpu::share
