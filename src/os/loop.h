// The event loop: epoll, one timer wheel over a timerfd, signals over a signalfd.  One thread.
// Callbacks may add and remove watches, their own included, while they run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "os/fd.h"
#include "result.h"

namespace pergpu::os {

class Loop {
 public:
  using FdCallback = std::function<void(std::uint32_t epoll_events)>;
  using TimerId = std::uint64_t;

  static Result<std::unique_ptr<Loop>> create();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Watches `fd` (not owned) for `epoll_events` (EPOLLIN, EPOLLOUT …; level-triggered).
  Result<void> watch(int fd, std::uint32_t epoll_events, FdCallback callback);
  Result<void> change(int fd, std::uint32_t epoll_events);
  /// REQUIRES: called before `fd` is closed.
  void unwatch(int fd);

  /// Calls `callback` once at `boot_ns` (CLOCK_BOOTTIME) or as soon after as possible.
  TimerId at(std::int64_t boot_ns, std::function<void()> callback);
  void cancel(TimerId id);

  /// Blocks these signals in this thread (and threads started later) and reports them here.
  Result<void> on_signals(const std::vector<int>& signals,
                          std::function<void(int signal)> callback);

  /// Called after each batch of callbacks, before sleeping: flush what the batch decided.
  void on_turn(std::function<void()> callback);

  /// Measures every turn, from the first callback to the next sleep; reports each that took longer
  /// than `limit_ns`.  The time that the thread was ready and had no core does not count.
  Result<void> watch_turns(std::int64_t limit_ns, std::function<void(std::int64_t ns)> too_long);

  /// Runs until stop().
  Result<void> run();
  void stop();

 private:
  Loop();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pergpu::os
