// Old readings leave from the front of a vector: it moves some 30 kB a second and attempt, which is
// a microsecond or two.
#include "job/rollup.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace pergpu {
namespace {

template <typename T>
void drop_oldest(std::vector<T>& list, std::size_t most) {
  if (list.size() <= most) return;
  list.erase(list.begin(), list.end() - static_cast<std::ptrdiff_t>(most));
}

}  // namespace

std::int64_t Rollup::begin_of(std::int64_t boot_ns, std::int64_t width_ns) const {
  const std::int64_t since = boot_ns - origin_ns_;
  const std::int64_t rest = since % width_ns;
  return boot_ns - (rest < 0 ? rest + width_ns : rest);
}

void Rollup::add_to(std::vector<UsageBucket>& buckets, std::int64_t width_ns,
                    const UsageReading& reading) const {
  const std::int64_t begin = begin_of(reading.boot_ns, width_ns);
  if (buckets.empty() || buckets.back().from_ns != begin) {
    buckets.push_back({.from_ns = begin, .width_ns = width_ns});
  }
  buckets.back().add(reading);
}

std::optional<UsageBucket> Rollup::add(const UsageReading& reading) {
  if (last_ && reading.boot_ns < last_->boot_ns) return std::nullopt;
  last_ = reading;
  if (total_.readings == 0) total_.from_ns = reading.boot_ns;
  total_.add(reading);
  total_.width_ns = reading.boot_ns - total_.from_ns;

  Second second{.boot_ns = reading.boot_ns, .throttle = reading.throttle};
  for (std::size_t i = 0; i < kMeasures; ++i) {
    second.values[i] = reading.values[i].value_or(std::numeric_limits<float>::quiet_NaN());
  }
  seconds_.push_back(second);
  add_to(tens_, kTenNs, reading);
  add_to(whole_, whole_ns_, reading);
  trim();

  std::optional<UsageBucket> over;
  const std::int64_t begin = begin_of(reading.boot_ns, kMinuteNs);
  if (minute_.readings == 0 || minute_.from_ns != begin) {
    if (minute_.readings > 0) over = minute_;
    minute_ = {.from_ns = begin, .width_ns = kMinuteNs};
  }
  minute_.add(reading);
  return over;
}

void Rollup::bound(Bounds bounds) {
  bounds_ = bounds;
  trim();
}

void Rollup::trim() {
  drop_oldest(seconds_, bounds_.seconds);
  drop_oldest(tens_, bounds_.tens);
  while (whole_.size() > bounds_.whole) widen();
}

/// Neighbors that fall into one bucket of twice the width become it.
void Rollup::widen() {
  whole_ns_ *= 2;
  std::vector<UsageBucket> wider;
  for (const UsageBucket& bucket : whole_) {
    const std::int64_t begin = begin_of(bucket.from_ns, whole_ns_);
    if (wider.empty() || wider.back().from_ns != begin) {
      wider.push_back({.from_ns = begin, .width_ns = whole_ns_});
    }
    wider.back().add(bucket);
  }
  whole_ = std::move(wider);
}

UsageBucket Rollup::bucket_of(const Second& second) {
  UsageBucket bucket{
      .from_ns = second.boot_ns, .width_ns = kSecondNs, .readings = 1, .throttle = second.throttle};
  for (std::size_t i = 0; i < kMeasures; ++i) {
    if (!std::isnan(second.values[i])) bucket.stats[i].add(second.values[i]);
  }
  return bucket;
}

Rollup::Series Rollup::series(std::int64_t from_ns, std::int64_t step_ns) const {
  const std::int64_t oldest = whole_.empty() ? from_ns : total_.from_ns;
  const std::int64_t reach = std::max(from_ns, oldest);
  const bool seconds_reach = !seconds_.empty() && seconds_.front().boot_ns <= reach;
  const bool tens_reach = !tens_.empty() && tens_.front().from_ns <= reach;
  Series out;
  const auto take = [&](const UsageBucket& bucket) {
    if (bucket.from_ns + bucket.width_ns > from_ns) out.buckets.push_back(bucket);
  };
  if (step_ns > 0 ? step_ns < kTenNs : seconds_reach) {
    out.step_ns = kSecondNs;
    for (const Second& second : seconds_) take(bucket_of(second));
  } else if (step_ns > 0 ? step_ns < kMinuteNs : tens_reach) {
    out.step_ns = kTenNs;
    for (const UsageBucket& bucket : tens_) take(bucket);
  } else {
    out.step_ns = whole_ns_;
    for (const UsageBucket& bucket : whole_) take(bucket);
  }
  return out;
}

}  // namespace pergpu
