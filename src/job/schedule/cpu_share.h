// How many cores a job wants, and how long it would take if it had them, from readings of what it
// got.  Where jobs want more cores than there are they slow each other down, and what one took then
// says little of what the next one takes in other company.  Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace pergpu {

/// The jobs of a machine at one reading.
struct Crowd {
  double machine_cores = 0;  // 0: not known, no job is slowed
  double used_cores = 0;     // by all of them
  std::size_t jobs = 0;

  /// Whether a job that uses `cores` would use more if it were alone.  The others leave nothing,
  /// and it takes its whole share: a job that takes less does not want it.
  bool slows(double cores) const;
};

/// One attempt, reading by reading.
class CpuShare {
 public:
  /// `cores` on average over `seconds`.
  void add(double seconds, double cores, bool is_slowed);

  /// While it gets all it wants; 0: nothing is known.  Of one that never did at least one core.
  double cores_wanted() const;
  /// How much of `elapsed_s` it would have taken alone, where it wants `wanted` cores.
  double alone_s(double elapsed_s, double wanted) const;
  double alone_s(double elapsed_s) const { return alone_s(elapsed_s, cores_wanted()); }

 private:
  double free_s_ = 0;
  double free_core_s_ = 0;
  double slowed_s_ = 0;
  double slowed_core_s_ = 0;
};

/// How fast jobs go that want these numbers of cores, 1: as if each were alone.  As the kernel does
/// it: threads get the same, and what one does not want the others get.
std::vector<double> speeds(const std::vector<double>& wanted, double machine_cores);

}  // namespace pergpu
