// Half precision numbers (IEEE 754 binary16), many at once: by the processor's own instructions
// where it has them, else by arithmetic on their bits.
#pragma once

#include <cstddef>

namespace pergpu::share {

/// Adds weight * from[i] to each sum; `first`: sets it.  `from` need not be aligned.
void add_halves(const std::byte* from, float weight, std::size_t count, float* sums, bool first);

/// into[i] = from[i] / divisor, rounded to nearest, ties to even.  `into` need not be aligned.
void divide_to_halves(const float* from, float divisor, std::size_t count, std::byte* into);

}  // namespace pergpu::share
