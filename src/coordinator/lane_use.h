// How long each lane had no attempt since this coordinator began.  Pure: time is an argument.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "job/event.h"

namespace pergpu {

class LaneUse {
 public:
  explicit LaneUse(std::int64_t since_ns) : since_ns_(since_ns) {}

  struct Idle {
    std::int64_t all_ns = 0;                            // since the coordinator began
    std::optional<std::int64_t> now_ns = std::nullopt;  // for so long; nullopt: it has an attempt
  };
  Idle of(LaneId lane, std::int64_t now_ns) const {
    const auto it = lanes_.find(lane);
    if (it == lanes_.end()) return {now_ns - since_ns_, now_ns - since_ns_};
    const Use& use = it->second;
    if (use.is_busy) return {use.changed_ns - since_ns_ - use.busy_ns, std::nullopt};
    return {now_ns - since_ns_ - use.busy_ns, now_ns - use.changed_ns};
  }

  void occupy(LaneId lane, std::int64_t now_ns) {
    Use& use = lanes_[lane];
    if (!use.is_busy) use.changed_ns = now_ns;
    use.is_busy = true;
  }
  void vacate(LaneId lane, std::int64_t now_ns) {
    const auto it = lanes_.find(lane);
    if (it == lanes_.end() || !it->second.is_busy) return;
    it->second.busy_ns += now_ns - it->second.changed_ns;
    it->second.changed_ns = now_ns;
    it->second.is_busy = false;
  }
  /// Lanes of a sweep that rests.
  void forget(SweepId sweep) {
    std::erase_if(lanes_, [&](const auto& entry) {
      return entry.first.pool == LaneId::Pool::Sweep && entry.first.sweep == sweep &&
             !entry.second.is_busy;
    });
  }

 private:
  struct Use {
    bool is_busy = false;
    std::int64_t changed_ns = 0;  // when it became busy, or free
    std::int64_t busy_ns = 0;     // of attempts that are over
  };
  std::int64_t since_ns_;
  std::map<LaneId, Use> lanes_;
};

}  // namespace pergpu
