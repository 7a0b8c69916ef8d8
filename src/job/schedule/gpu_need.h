// How much of a GPU the jobs of a step need that left it to pergpu (`gpus = "auto"`), and how many
// of them are to run side by side.  Pure.
//
// Of memory it is the most that any of them had.  Of time it is the part in which a kernel of one
// that was alone ran: GPUs take turns between processes (time slicing), so the sum of what they get
// done rises until one always computes, and no further.  The same holds for cores.  With MPS
// kernels of several run at the same time, as far as one leaves room for another.
#pragma once

#include <cstdint>
#include <optional>

#include "job/schedule/queue.h"

namespace pergpu {

struct GpuNeed {
  std::uint64_t bytes = 0;  // the most that any had; 0: not known
  double busy = 0;          // part of the time, 0 to 1: the mean of those that were measured
  int measured = 0;         // how many of them were, up to kMostMeasured
  double cores = 0;         // the most that any wanted; 0: not known
  static constexpr int kMostMeasured = 30;
  /// What one more, or several, were seen to need.
  void add(const GpuNeed& other);
  bool operator==(const GpuNeed&) const = default;
};

/// What is promised to a job when similar ones had at most `bytes`: 1/32 more, at least 256 MiB,
/// for no two runs need the same.
std::uint64_t promise_of(std::uint64_t bytes);

/// What each GPU has for the jobs on it.
struct GpuRoom {
  std::uint64_t bytes = 0;  // 0: not known
  double cores = 0;         // of the machine, for each GPU; 0: not known
  double kernels = 1;       // at the same time on a GPU: how far the sum of `busy` may go
};

/// Fills in what such a job asks for.  It has a GPU alone while it is not known what similar jobs
/// need (`need` null, or a part of it), or if that leaves nothing.  A `gpu_memory` that its step
/// declares is what it is promised.  REQUIRES: demand.is_auto.
void fit(Demand& demand, const GpuNeed* need, const GpuRoom& room);

/// What was seen of one attempt while it runs.
class GpuTrial {
 public:
  /// How busy the GPU was that had no other process, at that time.
  struct Busy {
    double part = 0;  // of the time, 0 to 1
    std::int64_t read_ns = 0;
  };
  /// A look: `bytes` that it has now.  Time counts from when it first computed: a program that
  /// still loads has little memory.
  void saw(std::int64_t now_ns, std::uint64_t bytes, std::optional<Busy> busy);
  /// It was seen for long enough, without a rise of its memory for half of that time, to be taken
  /// for what similar jobs need.  An attempt that was done always is.
  bool is_settled() const;
  /// Without `cores`.  How busy it is comes of three readings at least.
  GpuNeed need() const;

 private:
  std::int64_t began_ns_ = 0;  // 0: has not computed yet
  std::int64_t last_ns_ = 0;
  std::int64_t rose_ns_ = 0;
  std::uint64_t level_bytes_ = 0;  // since then
  std::uint64_t most_bytes_ = 0;
  double busy_ = 0;  // sum
  int readings_ = 0;
  std::int64_t last_read_ns_ = 0;
};

}  // namespace pergpu
