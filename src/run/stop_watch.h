// Ensures that what was asked to stop ends, although the process that was asked may be stopped,
// spin or hang.
//
// An attempt's keeper has until `due` to end it.  Then the keeper is asked for a sign of life: one
// that gives none within a second is ended with everything below it, so that the attempt is over
// four seconds after its grace at the latest.  One that does is asked again, for as long as
// something of the attempt resists.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "ids.h"
#include "os/clock.h"
#include "os/loop.h"

namespace pergpu {

class StopWatch {
 public:
  struct Parts {
    os::Loop* loop = nullptr;
    os::Clock* clock = nullptr;
    /// It has a keeper, and that has not ended it yet.
    std::function<bool(AttemptId)> is_pending;
    /// Asks its keeper for a sign of life.
    std::function<void(AttemptId)> ask;
    /// It has given one since it was asked.
    std::function<bool(AttemptId)> has_answered;
    /// Ends it with everything below it.
    std::function<void(AttemptId)> end;
  };
  /// Constant after construction: what the parts refer to outlives the watch.
  explicit StopWatch(Parts parts) : parts_(std::move(parts)) {}
  ~StopWatch();
  StopWatch(const StopWatch&) = delete;
  StopWatch& operator=(const StopWatch&) = delete;

  /// It was asked to stop: its keeper kills it at `kill_ns` (boot clock) at the latest.  An earlier
  /// instant counts, whichever was said first.
  void watch(AttemptId id, std::int64_t kill_ns);
  void forget_all();

 private:
  struct Watched {
    std::int64_t due_ns = 0;
    os::Loop::TimerId timer = 0;
    bool was_asked = false;
  };
  void at(AttemptId id, std::int64_t time_ns, void (StopWatch::*next)(AttemptId));
  void ask(AttemptId id);
  void judge(AttemptId id);

  Parts parts_;
  std::map<AttemptId, Watched> watched_;
};

}  // namespace pergpu
