// Lets many processes update memory at the same time, and one take a copy with no half update in
// it.
//
// Updates do not wait for each other.  A thread that updates says so in a place of its process (one
// atomic addition), and goes in while the gate is open.  A thread that copies closes the gate,
// waits until none is inside, copies, and opens it.  No wait is for the dead, or long:
//
// - a place is one word: process, start time, how many of its threads are inside, and how many
//   updates of its former owners were cut off by their death.  All four change in one step, so
//   there is no moment at which a death would leave the word wrong.  Who dies inside is found, and
//   its updates are counted as cut.
// - a closed gate has the one who closed it in it.  Where that one died, or its heartbeat stands
//   still for two seconds (it was stopped), the first that wants in opens the gate.  The copier
//   finds its gate gone when it is done, and knows that its copy is worth nothing.
// - the gate is never closed for more than half a second before the copying begins.  Who is inside
//   for longer is waited for with the gate open in between, until the copier's own deadline.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "result.h"
#include "share/futex.h"
#include "share/slot.h"

namespace pergpu::share {

/// In shared memory, zeroed at first.
struct alignas(64) GateWords {
  std::atomic<std::uint64_t> closed_by;  // 0: open
  Word opened;                           // counts; those who want in sleep on it
  Word left;                             // counts; the copier sleeps on it
  Word beats;                            // the copier's heartbeat
};

/// In shared memory, zeroed at first; one a process.
struct alignas(64) UpdatePlace {
  std::atomic<std::uint64_t> word;
};

/// Of one process, for all of its threads; holds one place.  A process that is forked off takes its
/// own place when it first comes to update.
class UpdateGate {
 public:
  /// Both in shared memory that outlives this.
  UpdateGate(GateWords* words, std::span<UpdatePlace> places);
  UpdateGate(const UpdateGate&) = delete;
  UpdateGate& operator=(const UpdateGate&) = delete;
  /// Gives the place back.
  ~UpdateGate();

  /// Takes a place, of which there are as many as were given.  ErrorKind::Full: all are taken by
  /// living processes.  Unavailable: this process has no descriptor left to look at itself.
  Result<void> attach();

  /// Into an update; false: only enter() can decide.  Nests: a thread that is inside gets in.  At
  /// most 4,095 threads of a process are inside at the same time.
  bool try_enter();
  /// The same, waiting for a copy to end.  Ready, TimedOut or Interrupted; errors of attach().
  Result<Outcome> enter(std::int64_t deadline_ns);
  /// False: this thread is not inside.
  bool leave();
  /// Whether this thread is.
  bool is_inside() const;

  struct Closing {
    Outcome outcome = Outcome::TimedOut;  // Ready: closed, and none is inside
    std::uint32_t pid = 0;                // TimedOut: who was inside, or copies; 0: not known
  };
  /// REQUIRES: this thread is not inside, and no other of this object is in close() or has it
  /// closed.  Interrupted and TimedOut leave the gate open.  Errors of attach().
  Result<Closing> close(std::int64_t deadline_ns);
  /// While it is closed: "still at it".  At least once a second.
  void beat() { words_->beats.fetch_add(1); }
  /// False: another process has opened it meanwhile, and there may have been updates.
  bool open();

  /// Updates whose process died inside, from the beginning on (of one place 1,023 at most).
  std::uint64_t cut_updates();
  /// The living processes that have a place, each once.
  std::vector<pid_t> users() const;

 private:
  bool has_place(std::uint64_t held) const;
  std::atomic<std::uint64_t>& place(std::uint64_t held) const;
  void tell_copier();
  void tell_waiting();
  Outcome wait_until_open(std::uint64_t closed_by, std::int64_t deadline_ns);
  std::uint64_t bury_the_dead();

  GateWords* words_;
  std::span<UpdatePlace> places_;
  std::atomic<std::uint64_t> held_ = 0;  // number of the place, from 1, and forks of its process
  std::uint64_t mine_ = 0;               // in closed_by, between close() and open()
  const std::uint64_t serial_;           // distinguishes gates of a process
};

}  // namespace pergpu::share
