// Whether the allocation is still there in which this coordinator was started: the GPUs are another
// user's when it is not.  A batch script and a step end with all that they started; what a shell of
// `salloc` has started on its machine is not ended.
#pragma once

#include <functional>
#include <string>

#include "os/clock.h"
#include "run/errands.h"
#include "slurm/slurm_client.h"
#include "timers.h"

namespace pergpu {

class AllocationWatch {
 public:
  struct Parts {
    std::string job = {};  // Slurm's number of it
    Errands* errands = nullptr;
    os::Clock* clock = nullptr;
    Timers* timers = nullptr;
    std::function<void(const std::string& words)> ended = {};  // at most once
  };
  explicit AllocationWatch(Parts parts) : parts_(std::move(parts)) {}

  /// Asks Slurm every half a minute, from then on.  While it does not answer nothing has ended.
  void begin();

 private:
  void ask();

  Parts parts_;
  slurm::Client client_;  // used by errands only
  int forgotten_ = 0;     // answers in a row; the errands' own while one is under way
};

}  // namespace pergpu
