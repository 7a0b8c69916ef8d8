// A process's own slot of a table of metrics (share/metrics_table.h).
//
// A report makes no system call, takes no lock and allocates nothing once its names are known.  One
// thread at a time may call.  In a forked child the slot is the parent's still, and nothing is
// written: the child claims its own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "result.h"
#include "share/metrics_table.h"

namespace pergpu::share {

/// One value of a report.
struct MetricReport {
  std::uint32_t name = 0;  // of MetricsWriter::name()
  double value = 0;
  bool is_whole = false;  // an integer, to be shown as one
};

class MetricsWriter {
 public:
  struct Identity {
    std::int64_t job = 0;
    std::int64_t attempt = 0;
    std::string place = {};  // RUN/STEP, at most kMetricPlaceBytes
  };

  /// A slot of `table`, which is to be mapped as long as this lives.  Where a process of the same
  /// job has ended, its slot with all that it reported; else a free one, or that of the process
  /// that ended longest ago.  `now_ns`: wall clock. ErrorKind::Full: all slots belong to processes
  /// that live.  Invalid: the place is too long.
  static Result<MetricsWriter> claim(const MetricsTable& table, const Identity& identity,
                                     std::int64_t now_ns);

  MetricsWriter(MetricsWriter&& other) noexcept;
  MetricsWriter& operator=(MetricsWriter&& other) noexcept;
  ~MetricsWriter() { release(); }

  /// Its number, from now on.  nullopt: it is empty, longer than kMetricNameBytes, has a NUL, or
  /// there are kMetricNames already; then only the file can have it.
  std::optional<std::uint32_t> name(std::string_view text);

  /// All values at once: a reader sees all of them or none.  Of more than kMetricNames values the
  /// first ones count.  `step`: NaN where there is none.  `now_ns`: wall clock.
  /// false: the slot is not this process's (any more).
  bool report(std::span<const MetricReport> values, double step, std::int64_t now_ns);

  /// Says that nothing more will come; what was reported stays.
  void release();

 private:
  MetricsWriter(MetricsSlot& slot, std::uint64_t owner);
  static Result<MetricsWriter> take(const MetricsTable& table, const Identity& identity,
                                    std::uint64_t owner, std::int64_t now_ns);
  void go_on(const Identity& identity);
  void begin(const Identity& identity, std::int64_t now_ns);
  bool is_mine() const;

  MetricsSlot* slot_ = nullptr;
  std::uint64_t owner_ = 0;  // what the slot's word has as long as it is ours
  unsigned forks_ = 0;
  std::uint64_t sequence_ = 0;  // even
  std::uint32_t told_ = 0;      // names that readers know
  std::uint64_t reports_ = 0;
  std::vector<std::string> names_ = {};
};

}  // namespace pergpu::share
