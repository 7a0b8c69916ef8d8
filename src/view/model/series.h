// A quantity over time, for charts a line high.  What is not known is kept as not known: a chart
// shows it as a question mark, never as zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace pergpu::view {

class Series {
 public:
  /// One column of a chart.
  static constexpr std::int64_t kSlotNs = 5'000'000'000;
  static constexpr std::size_t kMostSlots = 256;

  /// `now_ns` never goes back; several values within a slot count as their mean, and a slot without
  /// any is not known.
  void add(std::int64_t now_ns, std::optional<double> value);

  /// The newest `columns` slots, the newest at the right; `most` is the top of the chart.
  std::string sparkline(int columns, double most, bool unicode) const;

  bool any_known() const;
  bool operator==(const Series&) const = default;

 private:
  struct Slot {
    double sum = 0;
    int count = 0;  // 0: not known
    bool operator==(const Slot&) const = default;
  };
  std::deque<Slot> slots_;
  std::int64_t newest_ = 0;  // number of the last slot
};

}  // namespace pergpu::view
