// For each channel there is a table of 256 results, one for each byte: so scaling, normalizing and
// rounding to another type cost one look-up a value, whatever they are.
#include "share/transform.h"

#include <bit>
#include <cerrno>
#include <cmath>
#include <string>

namespace pergpu::share {
namespace {

/// Where the crop begins, counted from the padded corner, and whether it is turned round.
struct Cut {
  std::uint32_t top;
  std::uint32_t left;
  bool flipped;
};

std::uint32_t part(std::uint32_t limit, std::uint32_t chance) {
  return static_cast<std::uint32_t>((std::uint64_t{limit} * chance) >> 32);
}

Cut cut_of(const ImageTransform& t, std::uint64_t chance) {
  std::uint32_t free_rows = t.height + 2 * t.padding - t.rows();
  std::uint32_t free_columns = t.width + 2 * t.padding - t.columns();
  Cut cut = {free_rows / 2, free_columns / 2, false};
  if (t.random_crop) {
    // The lowest bit is the flip's, 31 and 32 others are those of the place.
    cut.top = part(free_rows + 1, static_cast<std::uint32_t>(chance >> 32));
    cut.left = part(free_columns + 1, static_cast<std::uint32_t>(chance) & ~1u);
  }
  cut.flipped = t.random_flip && (chance & 1) != 0;
  return cut;
}

/// What pixels outside of the image become stands behind those of the 256 bytes.
constexpr std::uint32_t kPadding = 256;
constexpr std::uint32_t kTable = 257;

template <typename Bits>
void apply_as(const ImageTransform& t, const std::byte* from, Bits* into, const Cut& cut,
              const std::uint32_t* table) {
  const std::uint32_t rows = t.rows();
  const std::uint32_t columns = t.columns();
  for (std::uint32_t channel = 0; channel < t.channels; ++channel, table += kTable) {
    for (std::uint32_t row = 0; row < rows; ++row) {
      // Unsigned: what lies above or left of the image is beyond its end, too.
      std::uint32_t y = cut.top + row - t.padding;
      const std::byte* line =
          y < t.height ? from + std::size_t{y} * t.width * t.channels + channel : nullptr;
      for (std::uint32_t column = 0; column < columns; ++column) {
        std::uint32_t x = cut.left + (cut.flipped ? columns - 1 - column : column) - t.padding;
        bool inside = line != nullptr && x < t.width;
        *into++ = static_cast<Bits>(
            table[inside ? std::to_integer<std::uint32_t>(line[std::size_t{x} * t.channels])
                         : kPadding]);
      }
    }
  }
}

std::uint32_t bits_of(const ImageTransform& t, std::uint32_t channel, std::uint32_t byte) {
  if (t.type == Type::UInt8) return byte;
  float mean = t.mean.empty() ? 0.0f : t.mean[channel];
  float deviation = t.deviation.empty() ? 1.0f : t.deviation[channel];
  float value = (static_cast<float>(byte) * t.scale - mean) / deviation;
  if (t.type == Type::Float16) return half_of(value);
  if (t.type == Type::BFloat16) return bfloat16_of(value);
  return std::bit_cast<std::uint32_t>(value);
}

Result<void> check(const ImageTransform& t) {
  auto wrong = [](std::string why) { return Error{ErrorKind::Invalid, EINVAL, std::move(why)}; };
  constexpr std::uint32_t kMost = 1 << 20;
  if (t.height == 0 || t.width == 0 || t.channels == 0)
    return wrong("an image needs a height, a width and channels above 0");
  if (t.height > kMost || t.width > kMost || t.channels > kMost || t.padding > kMost) {
    return wrong("a side of an image can have at most " + std::to_string(kMost) + " pixels");
  }
  if (t.rows() > t.height + 2 * t.padding || t.columns() > t.width + 2 * t.padding) {
    return wrong("a crop of " + std::to_string(t.rows()) + " x " + std::to_string(t.columns()) +
                 " doesn't fit into an image of " + std::to_string(t.height) + " x " +
                 std::to_string(t.width) + " with a padding of " + std::to_string(t.padding));
  }
  for (const std::vector<float>* of_channels : {&t.mean, &t.deviation}) {
    if (!of_channels->empty() && of_channels->size() != t.channels) {
      return wrong("a mean and a deviation need one value for each of the " +
                   std::to_string(t.channels) + " channels, not " +
                   std::to_string(of_channels->size()));
    }
  }
  for (float deviation : t.deviation) {
    if (!(deviation > 0)) return wrong("a deviation must be more than 0");
  }
  if (t.type == Type::UInt8 && (!t.mean.empty() || !t.deviation.empty())) {
    return wrong("bytes can't be normalized; use float32, float16 or bfloat16");
  }
  return {};
}

}  // namespace

std::size_t size_of(Type type) {
  switch (type) {
    case Type::UInt8:
      return 1;
    case Type::Float16:
    case Type::BFloat16:
      return 2;
    case Type::Float32:
      return 4;
  }
  return 0;
}

Result<ImageKernel> ImageKernel::make(ImageTransform transform) {
  if (Result<void> good = check(transform); !good) return std::move(good).error();
  ImageKernel kernel(std::move(transform));
  kernel.tables_.reserve(std::size_t{kTable} * kernel.transform_.channels);
  for (std::uint32_t channel = 0; channel < kernel.transform_.channels; ++channel) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      kernel.tables_.push_back(bits_of(kernel.transform_, channel, byte));
    }
    kernel.tables_.push_back(bits_of(kernel.transform_, channel, 0));
  }
  return kernel;
}

void ImageKernel::apply(const std::byte* from, std::byte* into, std::uint64_t chance) const {
  const Cut cut = cut_of(transform_, chance);
  switch (transform_.type) {
    case Type::UInt8:
      return apply_as(transform_, from, reinterpret_cast<std::uint8_t*>(into), cut, tables_.data());
    case Type::Float16:
    case Type::BFloat16:
      return apply_as(transform_, from, reinterpret_cast<std::uint16_t*>(into), cut,
                      tables_.data());
    case Type::Float32:
      return apply_as(transform_, from, reinterpret_cast<std::uint32_t*>(into), cut,
                      tables_.data());
  }
}

std::uint16_t half_of(float value) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  std::uint32_t sign = bits >> 16 & 0x8000u;
  std::uint32_t rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);  // no number
  if (rest >= 0x477ff000u)
    return static_cast<std::uint16_t>(sign | 0x7c00u);  // too large: infinite
  if (rest < 0x38800000u) {  // smaller than a normal half: in units of 2^-24
    float units = std::fabs(value) * 16777216.0f;
    return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(std::nearbyint(units)));
  }
  std::uint32_t odd = rest >> 13 & 1u;
  return static_cast<std::uint16_t>(sign | ((rest - 0x38000000u + 0xfffu + odd) >> 13));
}

std::uint16_t bfloat16_of(float value) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  std::uint32_t odd = bits >> 16 & 1u;
  return static_cast<std::uint16_t>((bits + 0x7fffu + odd) >> 16);
}

}  // namespace pergpu::share
