// A clock that jumps, timers in order, and sweeps to begin with.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "os/clock.h"
#include "spec/sweep/sweep.h"
#include "timers.h"

namespace pergpu::testing {

class SimClock final : public os::Clock {
 public:
  Instant now() override { return {.wall_ns = kStart + ns + step_ns, .boot_ns = kStart + ns}; }
  static constexpr std::int64_t kStart = 1'000'000'000'000;
  std::int64_t ns = 0;
  std::int64_t step_ns = 0;  // by which the wall clock was set
};

class SimTimers {
 public:
  Timers timers() {
    return {
        .at = [this](std::int64_t at, std::function<void()> f) { return add(at, std::move(f)); },
        .cancel = [this](Timers::Id id) { cancel(id); }};
  }
  Timers::Id add(std::int64_t at, std::function<void()> f) {
    const Timers::Id id = ++last_;
    due_.emplace(std::pair(at, id), std::move(f));
    return id;
  }
  void cancel(Timers::Id id) {
    std::erase_if(due_, [&](const auto& entry) { return entry.first.second == id; });
  }
  bool empty() const { return due_.empty(); }
  /// Runs the next one and moves the clock to it.
  void step(SimClock& clock) {
    auto node = due_.extract(due_.begin());
    clock.ns = std::max(clock.ns, node.key().first - SimClock::kStart);
    node.mapped()();
  }

 private:
  std::map<std::pair<std::int64_t, Timers::Id>, std::function<void()>> due_;
  Timers::Id last_ = 0;
};

/// A sweep of `runs` runs with parameter x = 0 …, without steps yet.
inline SweepSpec sweep_of(const std::string& name, int runs) {
  SweepSpec sweep{.name = name, .folder = "/nowhere"};
  for (int i = 0; i < runs; ++i)
    sweep.runs.push_back({.json = "{\"x\":" + std::to_string(i) + "}"});
  sweep.columns = {"x"};
  return sweep;
}

inline StepSpec step_of(const std::string& name, const std::string& duration = "1s",
                        const std::string& exit = "0") {
  return {.name = name, .command = {"true"}, .fake = {.duration = duration, .exit = exit}};
}

}  // namespace pergpu::testing
