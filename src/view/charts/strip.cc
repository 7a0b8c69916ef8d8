// The time is cut into cells of equal width; each counts the mean of what is known of it.
#include "view/charts/strip.h"

#include <algorithm>

namespace pergpu::view {
namespace {

/// More than this times what there is, or was promised, is more than the noise of measuring.
constexpr double kOver = 1.1;

}  // namespace

int level_of(double share) {
  if (!(share > 0)) return 0;
  if (share > kOver) return kOverLevel;
  return std::min(static_cast<int>(share * 5), kOverLevel - 1);
}

std::vector<StripPiece> strip_pieces(const std::vector<StripStretch>& stretches,
                                     std::int64_t begin_ns, std::int64_t end_ns, std::size_t most) {
  std::vector<StripPiece> pieces;
  if (end_ns <= begin_ns || most == 0) return pieces;
  const double width = static_cast<double>(end_ns - begin_ns) / static_cast<double>(most);
  std::vector<double> sums(most, 0);
  std::vector<double> known(most, 0);  // cells
  for (const StripStretch& stretch : stretches) {
    const auto at = [&](std::int64_t ns) {
      return static_cast<double>(std::clamp(ns, begin_ns, end_ns) - begin_ns) / width;
    };
    const double from = at(stretch.begin_ns);
    const double to = at(stretch.end_ns);
    for (auto i = static_cast<std::size_t>(from); i < most && static_cast<double>(i) < to; ++i) {
      const double cell = static_cast<double>(i);
      const double part = std::min(to, cell + 1) - std::max(from, cell);
      sums[i] += stretch.share * part;
      known[i] += part;
    }
  }
  for (std::size_t i = 0; i < most; ++i) {
    if (known[i] <= 0) continue;
    const double from = static_cast<double>(i) / static_cast<double>(most);
    const double to = static_cast<double>(i + 1) / static_cast<double>(most);
    const int level = level_of(sums[i] / known[i]);
    const bool follows = i > 0 && known[i - 1] > 0 && pieces.back().level == level;
    if (follows) {
      pieces.back().to = to;
    } else {
      pieces.push_back({.from = from, .to = to, .level = level});
    }
  }
  return pieces;
}

}  // namespace pergpu::view
