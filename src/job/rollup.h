// The readings of one attempt, finer the newer they are, in bounded memory: each reading of the
// last ten minutes, buckets of 10 s over the last two hours, and the whole attempt in buckets of a
// minute, which become twice as wide each time there are too many.  Pure.
//
// Every reading is in total(), and in exactly one bucket of the whole series.  A stretch of time
// without a reading has no bucket.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "job/usage.h"

namespace pergpu {

class Rollup {
 public:
  static constexpr std::int64_t kSecondNs = 1'000'000'000;
  static constexpr std::int64_t kTenNs = 10 * kSecondNs;
  static constexpr std::int64_t kMinuteNs = 60 * kSecondNs;

  /// How many of each there are at most.
  struct Bounds {
    std::size_t seconds = 600;
    std::size_t tens = 720;
    std::size_t whole = 360;
  };

  /// Buckets begin at multiples of their width after `origin_ns`.
  Rollup(std::int64_t origin_ns, Bounds bounds) : origin_ns_(origin_ns), bounds_(bounds) {}
  explicit Rollup(std::int64_t origin_ns = 0) : Rollup(origin_ns, Bounds{}) {}

  /// A reading that is older than the last one is left out.  Returns the minute that is over now.
  std::optional<UsageBucket> add(const UsageReading& reading);
  /// The minute that is not over; empty (no readings) before the first reading.
  const UsageBucket& open_minute() const { return minute_; }
  const UsageBucket& total() const { return total_; }
  const std::optional<UsageReading>& last() const { return last_; }

  struct Series {
    std::int64_t step_ns = 0;
    std::vector<UsageBucket> buckets = {};
  };
  /// What ends after `from_ns`, in the widest buckets that are at most `step_ns` wide, or narrower
  /// ones where the whole attempt is kept only in wider ones.  `step_ns` 0: the narrowest that
  /// reach back to `from_ns`.
  Series series(std::int64_t from_ns, std::int64_t step_ns) const;

  /// For less memory: what is too much goes.  REQUIRES: each is at least 2.
  void bound(Bounds bounds);

 private:
  struct Second {
    std::int64_t boot_ns = 0;
    std::uint32_t throttle = 0;
    std::array<float, kMeasures> values = {};  // NaN: unknown
  };
  static UsageBucket bucket_of(const Second& second);
  std::int64_t begin_of(std::int64_t boot_ns, std::int64_t width_ns) const;
  void add_to(std::vector<UsageBucket>& buckets, std::int64_t width_ns,
              const UsageReading& reading) const;
  void widen();
  void trim();

  std::int64_t origin_ns_;
  Bounds bounds_;
  std::int64_t whole_ns_ = kMinuteNs;  // width of whole_
  std::vector<Second> seconds_ = {};
  std::vector<UsageBucket> tens_ = {};  // the last one is not over
  std::vector<UsageBucket> whole_ = {};
  UsageBucket minute_ = {};
  UsageBucket total_ = {};
  std::optional<UsageReading> last_ = std::nullopt;
};

}  // namespace pergpu
