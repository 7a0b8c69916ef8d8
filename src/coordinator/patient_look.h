// Looks at files that may hang, and how long they are waited for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "os/clock.h"
#include "timers.h"

namespace pergpu {

/// Runs work on another thread, and what that returns on the deciding one.
using Aside = std::function<void(std::function<std::function<void()>()> work)>;

/// What such a look has at hand.  All outlive it.
struct PatientLook {
  const Aside* aside = nullptr;
  const Timers* timers = nullptr;
  os::Clock* clock = nullptr;

  /// `work` runs aside, `then` with what it returned on this thread; `late` instead of `then` when
  /// that is not there at `end_ns` of the boot clock.
  template <typename Work, typename Then>
  void until(std::int64_t end_ns, Work work, Then then, std::function<void()> late) const {
    const auto is_over = std::make_shared<bool>(false);
    const Timers::Id timer = timers->at(end_ns, [is_over, late = std::move(late)] {
      if (!std::exchange(*is_over, true)) late();
    });
    (*aside)([is_over, timer, timers = timers, work = std::move(work),
              then = std::move(then)]() mutable -> std::function<void()> {
      return [is_over, timer, timers, then = std::move(then), found = work()]() mutable {
        if (std::exchange(*is_over, true)) return;
        timers->cancel(timer);
        then(std::move(found));
      };
    });
  }
};

}  // namespace pergpu
