// Simulated time: what is to happen, in order, and a clock that jumps to the next of it.
//
// Everything has an owner, so that what a killed coordinator still meant to do can be struck out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>

#include "os/clock.h"

namespace pergpu::simulation {

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kHour = 3600 * kSecond;

class Clock final : public os::Clock {
 public:
  Instant now() override { return {.wall_ns = boot_ns + wall_offset, .boot_ns = boot_ns}; }
  std::int64_t boot_ns = kSecond;
  std::int64_t wall_offset = 1'700'000'000 * kSecond;
};

enum class Owner : std::uint8_t { Machine, Coordinator, People };

class Agenda {
 public:
  using Id = std::uint64_t;
  explicit Agenda(Clock& clock) : clock_(clock) {}

  Id at(std::int64_t boot_ns, Owner owner, std::function<void()> what) {
    const Id id = ++last_;
    const std::int64_t when = std::max(boot_ns, clock_.boot_ns);
    entries_.emplace(std::pair(when, id), Entry{owner, std::move(what)});
    times_.emplace(id, when);
    return id;
  }
  Id in(std::int64_t ns, Owner owner, std::function<void()> what) {
    return at(clock_.boot_ns + ns, owner, std::move(what));
  }
  void cancel(Id id) {
    const auto time = times_.find(id);
    if (time == times_.end()) return;
    entries_.erase({time->second, id});
    times_.erase(time);
  }
  void cancel_all(Owner owner) {
    for (auto it = entries_.begin(); it != entries_.end();) {
      if (it->second.owner != owner) {
        ++it;
        continue;
      }
      times_.erase(it->first.second);
      it = entries_.erase(it);
    }
  }
  bool empty() const { return entries_.empty(); }
  void step() {
    auto node = entries_.extract(entries_.begin());
    clock_.boot_ns = std::max(clock_.boot_ns, node.key().first);
    times_.erase(node.key().second);
    node.mapped().what();
  }

 private:
  struct Entry {
    Owner owner;
    std::function<void()> what;
  };
  Clock& clock_;
  std::map<std::pair<std::int64_t, Id>, Entry> entries_;
  std::unordered_map<Id, std::int64_t> times_;
  Id last_ = 0;
};

}  // namespace pergpu::simulation
