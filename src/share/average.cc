// A block of sums stays in the first-level cache while each source adds its part; the sources'
// pages come a window at a time, because larger ones fall out of the cache before they are used and
// smaller ones are mapped too often: 4 MiB was the fastest of 1, 4 and 16 with 8 files.
#include "share/average.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "share/file_mapping.h"
#include "share/transform.h"

namespace pergpu::share {
namespace {

constexpr std::size_t kBlock = 2048;                       // values
constexpr std::uint64_t kWindow = std::uint64_t{4} << 20;  // bytes

// How each type is stored, and what becomes of it on its way into a sum and out of it.  All bits
// are worked on at once and no branch is taken, so that compilers do several values in one
// instruction.

struct OfFloat16 {
  using Stored = std::uint16_t;
  using Sum = float;
  static float number(std::uint16_t half) {
    std::uint32_t magnitude = (half & 0x7FFFu) << 13;
    std::uint32_t exponent = magnitude & 0x0F800000u;
    std::uint32_t normal = magnitude + (112u << 23);
    std::uint32_t infinite = magnitude | 0x7F800000u;
    // A subnormal number is its bits times 2^-24: as the end of 2^-14, taken off again.
    float subnormal = std::bit_cast<float>(magnitude + (113u << 23)) - 0x1p-14f;
    std::uint32_t bits = exponent == 0 ? std::bit_cast<std::uint32_t>(subnormal) : normal;
    bits = exponent == 0x0F800000u ? infinite : bits;
    return std::bit_cast<float>(bits | (half & 0x8000u) << 16);
  }
  static std::uint16_t stored(float value) { return half_of(value); }
};

struct OfBFloat16 {
  using Stored = std::uint16_t;
  using Sum = float;
  static float number(std::uint16_t brain) {
    return std::bit_cast<float>(std::uint32_t{brain} << 16);
  }
  static std::uint16_t stored(float value) { return bfloat16_of(value); }
};

struct OfFloat32 {
  using Stored = float;
  using Sum = float;
  static float number(float value) { return value; }
  static float stored(float value) { return value; }
};

struct OfFloat64 {
  using Stored = double;
  using Sum = double;
  static double number(double value) { return value; }
  static double stored(double value) { return value; }
};

template <typename Of, bool kFirst>
void add(const std::byte* from, typename Of::Sum weight, std::size_t count,
         typename Of::Sum* sums) {
  for (std::size_t i = 0; i < count; ++i) {
    typename Of::Stored value;
    std::memcpy(&value, from + i * sizeof(value), sizeof(value));
    typename Of::Sum part = weight * Of::number(value);
    sums[i] = kFirst ? part : sums[i] + part;  // -0 stays -0
  }
}

template <typename Of>
void mean_of(std::span<const std::byte* const> from, std::span<const double> weights,
             std::size_t count, std::byte* into) {
  using Sum = typename Of::Sum;
  using Stored = typename Of::Stored;
  double whole = 0;
  for (double weight : weights) whole += weight;
  alignas(64) std::array<Sum, kBlock> sums;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t size = std::min(kBlock, count - begin);
    for (std::size_t k = 0; k < from.size(); ++k) {
      auto* add_this = k == 0 ? add<Of, true> : add<Of, false>;
      add_this(from[k] + begin * sizeof(Stored), static_cast<Sum>(weights[k]), size, sums.data());
    }
    for (std::size_t i = 0; i < size; ++i) {
      Stored value = Of::stored(sums[i] / static_cast<Sum>(whole));
      std::memcpy(into + (begin + i) * sizeof(Stored), &value, sizeof(Stored));
    }
  }
}

Result<void> write_all(const InFile& into, std::uint64_t at, const std::byte* data,
                       std::size_t size) {
  while (size > 0) {
    ssize_t done = ::pwrite(into.fd, data, size, static_cast<off_t>(into.offset + at));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return os_error("write " + std::to_string(size) + " bytes of a mean");
    data += done;
    at += static_cast<std::uint64_t>(done);
    size -= static_cast<std::size_t>(done);
  }
  return {};
}

}  // namespace

std::size_t size_of(Real real) {
  switch (real) {
    case Real::Float16:
    case Real::BFloat16:
      return 2;
    case Real::Float32:
      return 4;
    case Real::Float64:
      return 8;
  }
  return 0;
}

void mean(Real real, std::span<const std::byte* const> from, std::span<const double> weights,
          std::size_t count, std::byte* into) {
  switch (real) {
    case Real::Float16:
      return mean_of<OfFloat16>(from, weights, count, into);
    case Real::BFloat16:
      return mean_of<OfBFloat16>(from, weights, count, into);
    case Real::Float32:
      return mean_of<OfFloat32>(from, weights, count, into);
    case Real::Float64:
      return mean_of<OfFloat64>(from, weights, count, into);
  }
}

Result<void> write_mean(Real real, std::span<const InFile> from, std::span<const double> weights,
                        std::uint64_t count, const InFile& into) {
  const std::uint64_t bytes = count * size_of(real);
  std::vector<std::byte> window(std::min(bytes, kWindow));
  for (std::uint64_t at = 0; at < bytes; at += kWindow) {
    const std::size_t size = static_cast<std::size_t>(std::min(kWindow, bytes - at));
    std::vector<FileMapping> mapped;
    std::vector<const std::byte*> data;
    for (const InFile& file : from) {
      Result<FileMapping> part = FileMapping::map(file.fd, file.offset + at, size, View::ReadOnly);
      if (!part) return std::move(part).error();
      data.push_back(part->data());
      mapped.push_back(std::move(*part));
    }
    mean(real, data, weights, size / size_of(real), window.data());
    if (Result<void> done = write_all(into, at, window.data(), size); !done) return done;
  }
  return {};
}

}  // namespace pergpu::share
