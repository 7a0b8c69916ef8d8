// What may go wrong in one story, and how often.  A story has some kinds of faults and not others:
// a mixture of all hides what two of them do to each other.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "simulation/dice.h"

namespace pergpu::simulation {

/// The coordinator is killed where this is thrown: any call that leaves its process.
struct Killed {};

/// A promise is broken.
class Violation : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

struct Faults {
  bool kills = false;         // of the coordinator, at any call that leaves it
  bool keeper_kills = false;  // the status of what they hold is never learnt
  bool power_cuts = false;    // another boot
  bool full_disks = false;    // the store fails for a while
  bool lost_gpus = false;     // or with repairs that wait, advice of the driver, errors (Xids)
  bool foreign = false;       // processes of others on GPUs
  bool slow_memory = false;   // that comes back late after a job, or is never freed by a worker
  bool silent_probe = false;  // looks that fail or do not tell all
  bool bad_starts = false;    // programs that cannot be started
  bool wall_clock = false;    // that is set forwards and backwards
  bool stubborn = false;      // programs that ignore SIGTERM
  int failing_percent = 30;   // of the attempts
  std::int64_t kill_at = 0;   // in so many calls; 0: not

  static Faults choose(Dice& dice) {
    Faults f;
    for (bool* one :
         {&f.kills, &f.keeper_kills, &f.power_cuts, &f.full_disks, &f.lost_gpus, &f.foreign,
          &f.slow_memory, &f.silent_probe, &f.bad_starts, &f.wall_clock, &f.stubborn}) {
      *one = dice.percent(40);
    }
    f.failing_percent = dice.pick({0, 10, 30, 80});
    return f;
  }
  /// From here on nothing goes wrong any more.
  void stop() { *this = Faults{.failing_percent = 0}; }
  /// To be called where the coordinator calls out.
  void pass() {
    if (kill_at > 0 && --kill_at == 0) throw Killed{};
  }
};

}  // namespace pergpu::simulation
