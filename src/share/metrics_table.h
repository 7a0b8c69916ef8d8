// The newest metrics of the jobs of a sweep in one piece of memory: each process that reports has a
// slot, and everybody may look at any time without making anybody wait.
//
// What a process has reported stays when it ends, however it ends, until a job needs the slot and
// no other is free; then that of the process that ended longest ago is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "result.h"
#include "share/metrics_slot.h"

namespace pergpu::share {

/// One name of a process.  Steps are NaN where none was reported.
struct ReportedMetric {
  /// A number and when it was reported.
  struct At {
    double value = 0;
    double step = 0;
    bool is_whole = false;  // an integer, as it was reported
  };
  std::string name = {};
  At last = {};
  bool has_range = false;  // false: only NaN was ever reported
  At least = {};
  At greatest = {};
};

/// What one process of a job has reported.
struct JobMetrics {
  std::int64_t job = 0;
  std::int64_t attempt = 0;
  std::int64_t pid = 0;
  bool alive = false;            // the process lives, and has not said that it is done
  std::int64_t began_ns = 0;     // wall clock
  std::int64_t reported_ns = 0;  // wall clock
  std::uint64_t reports = 0;     // how many
  std::string place = {};        // RUN/STEP
  std::vector<ReportedMetric> metrics = {};
};

class MetricsTable {
 public:
  /// How many bytes a table of `slots` slots needs.
  static std::uint64_t bytes(std::uint32_t slots);

  /// In zeroed memory.  `key`: what others know it by.  ErrorKind::Invalid: too long, or the memory
  /// is not of bytes() of any number of slots.
  static Result<MetricsTable> create(std::byte* memory, std::size_t size, std::string_view key);
  /// ErrorKind::Corrupt: it is none, of another version, or larger than the memory.
  static Result<MetricsTable> open(std::byte* memory, std::size_t size);

  const std::string& key() const { return key_; }
  std::uint32_t slots() const { return slots_; }
  /// REQUIRES: number < slots().
  MetricsSlot& slot(std::uint32_t number) const {
    return *reinterpret_cast<MetricsSlot*>(memory_ + sizeof(MetricsHeader) +
                                           std::size_t{number} * sizeof(MetricsSlot));
  }

  /// The records of all processes, whole ones only; one that is written too fast to be read is left
  /// out.  Asks the kernel who lives.
  std::vector<JobMetrics> read() const;

 private:
  MetricsTable(std::byte* memory, std::uint32_t slots, std::string key)
      : memory_(memory), slots_(slots), key_(std::move(key)) {}

  std::byte* memory_;  // of the process that mapped it
  std::uint32_t slots_;
  std::string key_;
};

}  // namespace pergpu::share
