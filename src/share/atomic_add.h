// Adds arrays to arrays that others add to at the same time, and loses nothing: each element in one
// step.  A plain `+=` of two processes loses what the one wrote between the other's read and its
// write, which Hogwild accepts; it is several times as fast (docs/share.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pergpu::share {

/// What can be added in one step.
enum class Number { Float32, Float64, Int32, Int64 };
std::size_t size_of(Number number);

/// into[i] += values[i], for `count` of them.  `into` lies at a multiple of the size.
void atomic_add(Number number, std::byte* into, const std::byte* values, std::size_t count);

/// The same row by row: row rows[i] of `into` += row i of `values`; the same row may come again.
/// Rows have `width` numbers, `into` has `height` rows.  False, and nothing was added: one of
/// `rows` is not from 0 to height-1.
bool atomic_add_rows(Number number, std::byte* into, std::size_t height, std::size_t width,
                     std::span<const std::int64_t> rows, const std::byte* values);

}  // namespace pergpu::share
