// When a keeper without a coordinator starts a new one.
//
// First after 0-100 ms, so that not all keepers do at once, then after 12 s, 24 s, … 60 s while no
// coordinator connects; never more than 5 in a minute.  Of the keepers that are due at once one
// starts one, and the coordinators' lock lets one win.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace pergpu::keeper {

class ReviveSchedule {
 public:
  explicit ReviveSchedule(std::uint64_t seed) : random_(seed | 1) {}

  /// The connection was lost.  `yields`: to keepers that have more to give, for a few seconds.
  void lost(std::int64_t now_ns, bool yields = false);
  /// A coordinator connected, or reviving is not wanted.
  void cancel() { next_ns_.reset(); }
  /// One was started.  It may fail before it connects, and the queue may depend on it.
  void started(std::int64_t now_ns);
  std::optional<std::int64_t> next() const { return next_ns_; }

 private:
  static constexpr std::size_t kMostPerMinute = 5;

  std::uint64_t below(std::uint64_t bound);
  std::int64_t not_too_often(std::int64_t at_ns) const;

  std::uint64_t random_;
  std::int64_t wait_ns_ = 0;
  std::array<std::int64_t, kMostPerMinute> recent_ = {};  // 0: none
  std::size_t oldest_ = 0;
  std::optional<std::int64_t> next_ns_ = std::nullopt;
};

/// Starts `pergpu coordinator run` as a process that is not in this keeper's tree; not while one
/// lives that another keeper of `run_folder` has started.
void start_coordinator(const std::string& pergpu, const std::string& home,
                       const std::string& run_folder);

}  // namespace pergpu::keeper
