// The circuit breaker: when the first jobs of a step all fail by the same mistake, the rest would
// too. They are held until one of the step succeeds, or a person lets them go.
//
// It owns what it counted, and its scans: a step may have a million jobs, which are held, and let
// go, some in each turn, and none of them starts meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "coordinator/timers.h"
#include "coordinator/world.h"
#include "job/queue.h"
#include "os/clock.h"

namespace pergpu {

class CircuitBreaker {
 public:
  struct Parts {
    const World* world = nullptr;
    os::Clock* clock = nullptr;
    const Timers* timers = nullptr;
    std::function<void(JobId, JobEvent)> record = {};
    std::function<void(JobId)> refresh = {};        // its state has changed
    std::function<void(StepKey, bool)> pause = {};  // nothing of the step starts
    std::function<bool(SweepId)> is_frozen = {};    // no event may be recorded of its jobs now
  };
  explicit CircuitBreaker(Parts parts) : parts_(std::move(parts)) {}
  CircuitBreaker(const CircuitBreaker&) = delete;
  CircuitBreaker& operator=(const CircuitBreaker&) = delete;

  /// REQUIRES: the end of its attempt was recorded just now.
  void on_ended(const Job& job);
  /// A person has let jobs of the step go, or submitted it again.
  void reset(StepKey key);
  /// The same of all its steps.
  void reset(SweepId sweep);
  /// Takes up what the coordinator before had held, or was about to let go.
  void recover();
  /// No scan is under way.
  bool idle() const { return scans_ == 0; }

 private:
  struct State {
    std::map<std::string, int> failures = {};  // how many failed so, by signature
    std::string reason = {};                   // "": it has not tripped
    std::uint64_t scan = 0;                    // its jobs are being held or let go; 0: they are not
  };
  using Visit = std::function<void(const Job&)>;

  void count_failure(const Job& job);
  void close(StepKey key);
  void scan_step(StepKey key, Visit visit);
  void continue_scan(StepKey key, std::uint64_t scan, std::size_t from, Visit visit);

  Parts parts_;
  std::map<StepKey, State> states_;
  std::uint64_t last_scan_ = 0;
  int scans_ = 0;
};

}  // namespace pergpu
