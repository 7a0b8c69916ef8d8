// Whether the other end of a channel still lives.
//
// Two words show it, both in shared memory:
//
// - the owner: process, start time, state and epoch of the holder of a place, in one word that
// changes in
//   one step.  (pid, start) is what is judged: a pidfd that is readable, no such process, or
//   another start time.  Epochs count the owners of a place, so that an old handle is known to be
//   old.
// - the liveness word: the thread that has the place holds it as a robust futex.  When the thread
//   ends in whatever way the kernel marks the word (FUTEX_OWNER_DIED) and wakes one who waits for
//   it, provided that FUTEX_WAITERS is set.  That is a hint only, because a thread that ended may
//   have left a living process behind: Hold::renew() takes the word again.
//
// The kernel finds robust futexes by a list of pointers per thread.  Pointers in memory that others
// write to would let them write anywhere in this process, so a place ends with its liveness word,
// and the list's node lies behind it, on a page that only this process has.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "result.h"
#include "share/futex.h"

namespace pergpu::share {

enum class PlaceState : std::uint8_t {
  Vacant,    // no process was here yet
  Attached,  // a process is; whether it lives is another question
  Closed,    // it has said that nothing more will come
  Left,      // gone in good order, without saying that
  Dead,      // found dead, and written down by a process that survived
};

/// Unpacked form of a place's owner word.
struct Owner {
  std::uint32_t pid = 0;    // 22 bits: what Linux allows
  std::uint32_t start = 0;  // low 20 bits of the start time, never 0
  PlaceState state = PlaceState::Vacant;
  std::uint32_t epoch = 0;  // 19 bits; 0 only where no process was yet

  static Owner unpack(std::uint64_t word);
  std::uint64_t pack() const;
  Owner with(PlaceState other) const;
  bool operator==(const Owner&) const = default;
};
/// The epoch after `epoch`; never 0.
std::uint32_t next_epoch(std::uint32_t epoch);
/// Whether `epoch` came after `than`, as far as 19 bits show it.
bool is_newer(std::uint32_t epoch, std::uint32_t than);

/// This process, state Attached, epoch 0.  `start` 0: it can't be determined, for want of
/// descriptors.
Owner this_process();

/// Whether the process has ended (a zombie has).  False where it can't be determined.  Uses
/// descriptors for a moment.
bool has_ended(const Owner& owner);

/// Forks between the first call of count_forks() and this process.  What was claimed before one is
/// the parent's.
extern std::atomic<unsigned> forks_so_far;
/// Counts from now on; how many there have been.
unsigned count_forks();

/// Marked by the kernel, or never held: worth a look at has_ended().
bool hints_at_death(const Word& live);

/// Makes the kernel wake us when the holder of `live` ends.  The value to wait for; nullopt: there
/// is no holder any more.
std::optional<std::uint32_t> announce_waiter(Word& live);

/// A liveness word held by the thread that called take().
class Hold {
 public:
  /// Of the page at `offset` of `fd`, whose last eight bytes begin with the liveness word.  Its
  /// holder before is dead or gone; the caller has made sure of that.
  static Result<Hold> take(int fd, std::uint64_t offset);

  Hold() = default;
  Hold(Hold&& other) noexcept;
  Hold& operator=(Hold&& other) noexcept;
  /// release(), except in a forked child, which holds nothing.
  ~Hold() { release(); }

  /// False in a forked child and after release().
  bool is_mine() const;
  /// Takes the word again for this thread if the one that held it has ended.
  void renew();
  /// Gives the word back and wakes who waits for it.  From any thread.
  void release();

 private:
  struct Page;

  void enter_list();
  bool leave_list();
  Word* word() const;

  std::byte* pages_ = nullptr;  // the shared page, then the private one
  pid_t thread_ = 0;
};

}  // namespace pergpu::share
