// Values are floats and sums doubles, so that the mean of a bucket lies between its least and its
// most, and merging buckets gives what one bucket over all readings would have given.
#include "job/usage.h"

#include <algorithm>

namespace pergpu {

std::string_view to_string(Measure m) {
  switch (m) {
    case Measure::Cores:
      return "cores";
    case Measure::Resident:
      return "resident_bytes";
    case Measure::Proportional:
      return "proportional_bytes";
    case Measure::Read:
      return "read_bytes_per_s";
    case Measure::Written:
      return "written_bytes_per_s";
    case Measure::Processes:
      return "processes";
    case Measure::GpuBusy:
      return "gpu_busy_percent";
    case Measure::GpuMemory:
      return "gpu_memory_bytes";
    case Measure::GpuPower:
      return "gpu_power_w";
    case Measure::GpuTemperature:
      return "gpu_temperature_c";
    case Measure::GpuClock:
      return "gpu_clock_mhz";
  }
  return "?";
}

void Stat::add(float value) {
  least = count == 0 ? value : std::min(least, value);
  most = count == 0 ? value : std::max(most, value);
  sum += static_cast<double>(value);
  ++count;
}

void Stat::add(const Stat& other) {
  if (other.count == 0) return;
  least = count == 0 ? other.least : std::min(least, other.least);
  most = count == 0 ? other.most : std::max(most, other.most);
  sum += other.sum;
  count += other.count;
}

std::optional<double> Stat::mean() const {
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

void UsageBucket::add(const UsageReading& reading) {
  ++readings;
  throttle |= reading.throttle;
  for (std::size_t i = 0; i < kMeasures; ++i) {
    if (reading.values[i]) stats[i].add(*reading.values[i]);
  }
}

void UsageBucket::add(const UsageBucket& other) {
  readings += other.readings;
  throttle |= other.throttle;
  for (std::size_t i = 0; i < kMeasures; ++i) stats[i].add(other.stats[i]);
}

UsageSummary summary_of(const UsageBucket& whole) {
  UsageSummary summary{.readings = whole.readings, .throttle = whole.throttle};
  for (std::size_t i = 0; i < kMeasures; ++i) {
    const std::optional<double> mean = whole.stats[i].mean();
    if (!mean) continue;
    summary.extents[i] = UsageSummary::Extent{static_cast<float>(*mean), whole.stats[i].most};
  }
  return summary;
}

}  // namespace pergpu
