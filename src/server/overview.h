// Everything at once, in a size that does not grow with the queue: what a watcher of all sweeps is
// shown (kMost… in snapshot.h say how much).
//
// Derived from the world, but for the order in which jobs ended: that is kept from the first look
// on.  Before the first look it costs nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "api/snapshot.h"
#include "coordinator/coordinator.h"
#include "ids.h"

namespace pergpu {

class Overview {
 public:
  /// Constant after construction: the coordinator outlives this.
  explicit Overview(const Coordinator& coordinator) : coordinator_(coordinator) {}

  /// These jobs changed; to be called for every change.
  void changed(const std::vector<JobId>& jobs);

  /// The jobs that are shown, in ascending order.
  std::vector<JobId> window();

  struct Sweeps {
    std::vector<SweepSummary> shown = {};  // with open jobs, then the others; newest first
    std::map<std::string, std::int64_t> counts = {};  // of these, and of all with open jobs
  };
  Sweeps sweeps() const;

 private:
  void find_ended();

  const Coordinator& coordinator_;
  bool knows_ended_ = false;
  std::deque<JobId> ended_;  // the last ones; some may be queued again
};

}  // namespace pergpu
