// How attempts on each GPU ended, and which GPU is a lemon by that: several different programs
// failed on it, one after the other, while others succeeded elsewhere.  Pure.
//
// Counted are failures that a broken GPU may cause and that nothing else explains (exit code,
// signal, stall).  A step that fails on another GPU, too, speaks against itself.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "job/outcome.h"
#include "job/queue.h"

namespace pergpu {

/// So many different steps make a lemon.
inline constexpr int kLemonSteps = 3;

class GpuRecord {
 public:
  /// An attempt with several GPUs says of none of them which one failed.
  void ended(const std::vector<std::string>& gpus, StepKey step, OutcomeClass cls);
  bool is_lemon(const std::string& uuid) const;
  /// What was is no reason any more.
  void forget(const std::string& uuid);

 private:
  struct End {
    std::string uuid;
    StepKey step;
    bool ok = false;
  };
  std::deque<End> ends_;  // oldest first
};

}  // namespace pergpu
