// The mean of arrays that lie in files, a window at a time: however large the files are, a few
// megabytes of them are looked at at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "result.h"

namespace pergpu::share {

/// What has a mean.
enum class Real : std::uint8_t { Float16, BFloat16, Float32, Float64 };

std::size_t size_of(Real real);

/// Of each i: the sum of weights[k] * from[k][i], divided by the sum of the weights.  Added up as
/// float, of Float64 as double, and rounded to nearest, ties to even.  Nothing need be aligned; the
/// values of `into` must not be part of a source. REQUIRES: as many weights as sources, at least
/// one.
void mean(Real real, std::span<const std::byte* const> from, std::span<const double> weights,
          std::size_t count, std::byte* into);

/// Where an array begins in an ordinary file.
struct InFile {
  int fd = -1;
  std::uint64_t offset = 0;  // bytes
};

/// The same from files into a file, `count` values.  What is in `into` there may be as if written
/// in any order, also after an error.
/// ErrorKind::Invalid: not all of a source is in its file.  Who shortens a source meanwhile takes
/// its pages away: that is a SIGBUS.
Result<void> write_mean(Real real, std::span<const InFile> from, std::span<const double> weights,
                        std::uint64_t count, const InFile& into);

}  // namespace pergpu::share
