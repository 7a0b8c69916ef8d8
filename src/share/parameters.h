// Parameters that processes train together, without locks (Hogwild): arrays in one segment,
// counters, and copies of all of it while others write.
//
//   the header     magic, version, where the rest lies; the gate, counters, places (update_gate.h)
//   the head       text of its maker: what arrays there are
//   the data       from a multiple of 4096 on
//
// What is consistent: a snapshot has no half of an update in it where updates are made between
// begin and end.  Of what is written outside of those, words of up to eight bytes that lie at a
// multiple of their size are whole, and nothing else is promised.  An update whose process dies
// inside stays half done; snapshots show how many of these there were.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "result.h"
#include "share/update_gate.h"

namespace pergpu::share {

struct ParametersHeader;

class Parameters {
 public:
  static constexpr std::size_t kMostProcesses = 256;
  static constexpr std::size_t kMostCounters = 64;
  static constexpr std::size_t kLongestName = 47;  // bytes of a counter's

  /// Bytes of the segment for a head and data of these sizes.
  static std::uint64_t size_for(std::uint64_t head_bytes, std::uint64_t data_bytes);
  /// Writes header and head into zeroed memory; the caller fills data() and then says complete().
  /// ErrorKind::Invalid: the memory is too small.
  static Result<std::unique_ptr<Parameters>> lay_out(std::span<std::byte> memory,
                                                     std::string_view head,
                                                     std::uint64_t data_bytes);
  /// What another process has laid out.  The memory, which is mapped as shared, outlives this.
  /// ErrorKind::Invalid: it holds something else, is of another version, or was never completed.
  static Result<std::unique_ptr<Parameters>> open(std::span<std::byte> memory);

  /// From now on open() succeeds.
  void complete();

  std::string_view head() const;
  std::span<std::byte> data() const { return data_; }
  /// Where the data begins in the memory.
  std::uint64_t data_offset() const;

  /// Updates, the processes that take part, and the updates that were cut.
  UpdateGate& gate() { return gate_; }

  /// The number of the counter with this name, which begins at 0 where there was none; counters are
  /// never taken away.  ErrorKind::Invalid: the name is empty or too long; Full: there are
  /// kMostCounters of others; Busy: a process was stopped while it made one.
  Result<std::size_t> counter(std::string_view name);
  /// Adds `by`, in one step; what it is then.
  std::int64_t count(std::size_t counter, std::int64_t by);
  struct Counter {
    std::string name;
    std::int64_t value = 0;
  };
  std::vector<Counter> counters() const;

  enum class IfLate {
    Refuse,  // TimedOut
    Tear,    // a copy is taken all the same, with halves of updates in it, and says so
  };
  struct Snapshot {
    Outcome outcome = Outcome::TimedOut;  // Ready, TimedOut or Interrupted
    bool torn = false;
    std::uint64_t cut_updates = 0;  // UpdateGate::cut_updates() at that moment
    std::vector<Counter> counters = {};
    std::uint32_t pid = 0;  // TimedOut: who was inside an update
  };
  /// Copies the data, `into` having its size, and the counters of the same moment.  Updates wait
  /// for the copy, and it for the updates under way, until the deadline.  ErrorKind::Invalid: this
  /// thread is inside an update; Busy: another of this process is taking one; errors of
  /// UpdateGate::attach().
  Result<Snapshot> snapshot(std::span<std::byte> into, std::int64_t deadline_ns, IfLate if_late);

 private:
  Parameters(ParametersHeader* header, std::span<std::byte> memory, std::span<std::byte> data);

  void copy(std::span<std::byte> into);

  ParametersHeader* header_;
  std::span<std::byte> memory_;
  std::span<std::byte> data_;
  UpdateGate gate_;
  std::atomic<bool> taking_ = false;
};

}  // namespace pergpu::share
