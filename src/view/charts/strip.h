// How much of something was in use, over time: pieces of one color each, for a strip below a bar.
// Pure.  Where nothing is known there is no piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pergpu::view {

/// [begin, end); 0: nothing of it in use, 1: all.
struct StripStretch {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  double share = 0;
};

struct StripPiece {
  double from = 0;  // of the strip's width: 0 to 1
  double to = 0;
  int level = 0;
  bool operator==(const StripPiece&) const = default;
};

/// Levels 0 to 4 are a fifth each.
inline constexpr int kOverLevel = 5;
inline constexpr int kLevels = 6;
int level_of(double share);

/// The strip of [begin, end) out of at most `most` pieces; neighbors differ, or have a gap
/// between them.  `stretches` are by begin.
std::vector<StripPiece> strip_pieces(const std::vector<StripStretch>& stretches,
                                     std::int64_t begin_ns, std::int64_t end_ns, std::size_t most);

}  // namespace pergpu::view
