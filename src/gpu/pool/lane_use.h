// How long each lane had no attempt since this coordinator began.  A GPU that jobs share is one
// lane here.  Pure: time is an argument.
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
    std::optional<std::int64_t> now_ns = std::nullopt;  // for how long; nullopt: it has an attempt
  };
  Idle of(LaneId lane, std::int64_t now_ns) const {
    const auto it = lanes_.find(whole(lane));
    if (it == lanes_.end()) return {now_ns - since_ns_, now_ns - since_ns_};
    const Use& use = it->second;
    if (use.jobs > 0) return {use.changed_ns - since_ns_ - use.busy_ns, std::nullopt};
    return {now_ns - since_ns_ - use.busy_ns, now_ns - use.changed_ns};
  }

  void occupy(LaneId lane, std::int64_t now_ns) {
    Use& use = lanes_[whole(lane)];
    if (use.jobs++ == 0) use.changed_ns = now_ns;
  }
  void vacate(LaneId lane, std::int64_t now_ns) {
    const auto it = lanes_.find(whole(lane));
    if (it == lanes_.end() || it->second.jobs == 0 || --it->second.jobs > 0) return;
    it->second.busy_ns += now_ns - it->second.changed_ns;
    it->second.changed_ns = now_ns;
  }
  /// Lanes of a sweep that rests.
  void forget(SweepId sweep) {
    std::erase_if(lanes_, [&](const auto& entry) {
      return entry.first.pool == LaneId::Pool::Sweep && entry.first.sweep == sweep &&
             entry.second.jobs == 0;
    });
  }

 private:
  struct Use {
    int jobs = 0;
    std::int64_t changed_ns = 0;  // when it became busy, or free
    std::int64_t busy_ns = 0;     // of attempts that are over
  };
  static LaneId whole(LaneId lane) {
    lane.part = 0;
    return lane;
  }
  std::int64_t since_ns_;
  std::map<LaneId, Use> lanes_;
};

}  // namespace pergpu
