// A block of sums stays in the caches of its core while each source adds its part: with 2048 values
// a block the pages of these sources come in pieces too small to be fetched ahead (a third slower
// than 8192, with 8 files).  The sources are mapped a window at a time, because smaller ones are
// mapped too often: 4 MiB was the fastest of 1, 4 and 16.
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
#include "share/half.h"

namespace pergpu::share {
namespace {

constexpr std::size_t kBlock = 8192;                       // values
constexpr std::uint64_t kWindow = std::uint64_t{4} << 20;  // bytes

// Of each type: what it is added up as, how it is added, and what becomes of a sum.  No branch is
// taken for a value, so that compilers do several in one instruction.

struct OfFloat16 {
  using Stored = std::uint16_t;
  using Sum = float;
  static void add(const std::byte* from, float weight, std::size_t count, float* sums, bool first) {
    add_halves(from, weight, count, sums, first);
  }
  static void divide(const float* sums, float divisor, std::size_t count, std::byte* into) {
    divide_to_halves(sums, divisor, count, into);
  }
};

/// What is converted value by value.
template <typename Of, typename StoredAs, typename SummedAs>
struct ByValue {
  using Stored = StoredAs;
  using Sum = SummedAs;
  static void add(const std::byte* from, Sum weight, std::size_t count, Sum* sums, bool first) {
    first ? add<true>(from, weight, count, sums) : add<false>(from, weight, count, sums);
  }
  static void divide(const Sum* sums, Sum divisor, std::size_t count, std::byte* into) {
    for (std::size_t i = 0; i < count; ++i) {
      Stored value = Of::stored(sums[i] / divisor);
      std::memcpy(into + i * sizeof(value), &value, sizeof(value));
    }
  }

 private:
  template <bool kFirst>
  static void add(const std::byte* from, Sum weight, std::size_t count, Sum* sums) {
    for (std::size_t i = 0; i < count; ++i) {
      Stored value;
      std::memcpy(&value, from + i * sizeof(value), sizeof(value));
      Sum part = weight * Of::number(value);
      sums[i] = kFirst ? part : sums[i] + part;  // -0 stays -0
    }
  }
};

struct OfBFloat16 : ByValue<OfBFloat16, std::uint16_t, float> {
  static float number(std::uint16_t brain) {
    return std::bit_cast<float>(std::uint32_t{brain} << 16);
  }
  static std::uint16_t stored(float value) {
    std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    std::uint32_t rounded = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
    bool is_none = (bits & 0x7FFFFFFFu) > 0x7F800000u;
    return static_cast<std::uint16_t>(is_none ? bits >> 16 | 0x40u : rounded);
  }
};

struct OfFloat32 : ByValue<OfFloat32, float, float> {
  static float number(float value) { return value; }
  static float stored(float value) { return value; }
};

struct OfFloat64 : ByValue<OfFloat64, double, double> {
  static double number(double value) { return value; }
  static double stored(double value) { return value; }
};

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
      Of::add(from[k] + begin * sizeof(Stored), static_cast<Sum>(weights[k]), size, sums.data(),
              k == 0);
    }
    Of::divide(sums.data(), static_cast<Sum>(whole), size, into + begin * sizeof(Stored));
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
