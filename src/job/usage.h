// What an attempt uses of the machine: readings, and what readings of a stretch of time add up to.
//
// Unknown is not zero: a value that was not reported is nullopt in a reading and adds nothing to a
// Stat, which then says so by its count.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace pergpu {

/// In this order in the store's blobs (usage_blob.h): a new one goes to the end.
enum class Measure : std::uint8_t {
  Cores,         // CPU time of its processes per time
  Resident,      // bytes in memory, process by process: what they share counts more than once
  Proportional,  // bytes in memory, what is shared counted in part; in few readings only
  Read,          // bytes a second from the disk
  Written,       // bytes a second to the disk
  Processes,
  GpuBusy,         // per cent of the time in which a kernel ran; mean of its GPUs
  GpuMemory,       // bytes of its GPUs in use, together
  GpuPower,        // watts of its GPUs, together
  GpuTemperature,  // °C of the hottest
  GpuClock,        // MHz of the multiprocessors; mean of its GPUs
};
inline constexpr std::size_t kMeasures = 11;
inline constexpr Measure kAllMeasures[kMeasures] = {
    Measure::Cores,    Measure::Resident,       Measure::Proportional, Measure::Read,
    Measure::Written,  Measure::Processes,      Measure::GpuBusy,      Measure::GpuMemory,
    Measure::GpuPower, Measure::GpuTemperature, Measure::GpuClock};

/// "cores", "resident_bytes", "gpu_busy_percent", …
std::string_view to_string(Measure m);

/// Of one attempt at one instant.
struct UsageReading {
  std::int64_t boot_ns = 0;
  std::array<std::optional<float>, kMeasures> values = {};
  std::uint32_t throttle = 0;  // why its GPUs run slower than they could: bits of gpu/throttle.h

  std::optional<float>& operator[](Measure m) { return values[static_cast<std::size_t>(m)]; }
  const std::optional<float>& operator[](Measure m) const {
    return values[static_cast<std::size_t>(m)];
  }
  bool operator==(const UsageReading&) const = default;
};

/// Of one measure over some readings.
struct Stat {
  std::uint32_t count = 0;  // how many have it; 0: unknown, and the rest means nothing
  float least = 0;
  float most = 0;
  double sum = 0;

  void add(float value);
  void add(const Stat& other);
  std::optional<double> mean() const;
  bool operator==(const Stat&) const = default;
};

/// Readings from `from_ns` (included) on, for `width_ns`.
struct UsageBucket {
  std::int64_t from_ns = 0;
  std::int64_t width_ns = 0;
  std::uint32_t readings = 0;
  std::uint32_t throttle = 0;  // any reading's
  std::array<Stat, kMeasures> stats = {};

  void add(const UsageReading& reading);
  /// What another stretch of time says; times stay as they are.
  void add(const UsageBucket& other);
  Stat& operator[](Measure m) { return stats[static_cast<std::size_t>(m)]; }
  const Stat& operator[](Measure m) const { return stats[static_cast<std::size_t>(m)]; }
  bool operator==(const UsageBucket&) const = default;
};

/// A whole attempt in a few figures: part of its outcome.
struct UsageSummary {
  struct Extent {
    float mean = 0;
    float most = 0;
    bool operator==(const Extent&) const = default;
  };
  std::uint32_t readings = 0;
  std::uint32_t throttle = 0;
  std::array<std::optional<Extent>, kMeasures> extents = {};
  std::optional<std::uint64_t> read_bytes = std::nullopt;  // from the disk, in all
  std::optional<std::uint64_t> written_bytes = std::nullopt;

  const std::optional<Extent>& operator[](Measure m) const {
    return extents[static_cast<std::size_t>(m)];
  }
  bool operator==(const UsageSummary&) const = default;
};
UsageSummary summary_of(const UsageBucket& whole);

}  // namespace pergpu
