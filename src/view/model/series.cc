// Zero has its own height: it differs from little, and from not known.
#include "view/model/series.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace pergpu::view {
namespace {

constexpr std::array<std::string_view, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::string_view kAscii = "_.:-=+*#";

std::size_t height_of(double value, double most) {
  if (!(value > 0) || !(most > 0)) return 0;
  const double top = static_cast<double>(kBlocks.size() - 1);
  return static_cast<std::size_t>(std::clamp(std::ceil(value / most * top), 1.0, top));
}

}  // namespace

void Series::add(std::int64_t now_ns, std::optional<double> value) {
  const std::int64_t slot = now_ns / kSlotNs;
  if (slots_.empty() || slot > newest_) {
    // A pause (the machine slept) leaves slots that nothing is known of.
    const std::int64_t missed = slots_.empty() ? 1 : slot - newest_;
    const auto most = static_cast<std::int64_t>(kMostSlots);
    for (std::int64_t i = 0; i < std::min(missed, most); ++i) slots_.emplace_back();
    while (slots_.size() > kMostSlots) slots_.pop_front();
    newest_ = slot;
  }
  if (!value || !std::isfinite(*value)) return;
  slots_.back().sum += *value;
  ++slots_.back().count;
}

std::string Series::sparkline(int columns, double most, bool unicode) const {
  std::string out;
  const auto room = static_cast<std::size_t>(std::max(columns, 0));
  const std::size_t shown = std::min(room, slots_.size());
  out.append(room - shown, ' ');
  for (std::size_t i = slots_.size() - shown; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.count == 0) {
      out += '?';
      continue;
    }
    const std::size_t height = height_of(slot.sum / slot.count, most);
    out += unicode ? kBlocks[height] : kAscii.substr(height, 1);
  }
  return out;
}

bool Series::any_known() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.count > 0; });
}

}  // namespace pergpu::view
