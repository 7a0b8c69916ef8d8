// A ring of slot numbers in shared memory, with one writer at each end, and a way to sleep without
// missing what is pushed meanwhile.
//
// Who pushes owns the tail, who pops owns the head; each keeps its own index in private memory and
// only publishes it, so that nothing the other side writes can lead it astray.  What the other side
// wrote (its index, the entries) is masked and checked: nonsense is Corrupt, never an access
// outside.
//
// Sleeping is by a flag of the endpoint that pops, one for all its rings:
//
//   push: entry, then tail (seq_cst), then: flag set? the one that changes it from 1 to 0 wakes.
//   sleep: flag = 1 (seq_cst), look at every tail again (seq_cst), wait ON THE FLAG while it is 1.
//
// Flag and tail are the two words of Dekker's algorithm: with less than seq_cst each side could
// miss the other's store.  To wait on the tail instead loses wake-ups.  tests/model/channel.pml has
// both mistakes as mutants.
#pragma once

#include <atomic>
#include <cstdint>

#include "share/futex.h"

namespace pergpu::share {

struct RingWords {
  alignas(64) Word tail;  // how many were ever pushed
  alignas(64) Word head;  // how many were ever popped
};
static_assert(sizeof(RingWords) == 128);

/// Where a ring lies.  `mask` + 1, a power of two, is at least the number of slots, so a ring is
/// never full; entries are below `slots`.
struct Ring {
  RingWords* words = nullptr;
  Word* entries = nullptr;
  std::uint32_t mask = 0;
  std::uint32_t slots = 0;
};

enum class Popped { Got, Empty, Corrupt };

class PushEnd {
 public:
  PushEnd() = default;
  /// Goes on where the last owner of this end was.
  explicit PushEnd(const Ring& ring)
      : ring_(ring), tail_(ring.words->tail.load(std::memory_order_acquire)) {}

  void push(std::uint32_t slot) {
    ring_.entries[tail_ & ring_.mask].store(slot, std::memory_order_relaxed);
    ring_.words->tail.store(++tail_, std::memory_order_seq_cst);
  }
  /// How many are in the ring: at most what it can hold, whatever the other side says.
  std::uint32_t waiting() const {
    std::uint32_t count = tail_ - ring_.words->head.load(std::memory_order_acquire);
    return count <= ring_.mask + 1 ? count : ring_.mask + 1;
  }

 private:
  Ring ring_ = {};
  std::uint32_t tail_ = 0;
};

class PopEnd {
 public:
  PopEnd() = default;
  explicit PopEnd(const Ring& ring)
      : ring_(ring), head_(ring.words->head.load(std::memory_order_acquire)) {}

  /// Looks at the next entry; it stays in the ring until advance().
  Popped peek(std::uint32_t& slot) const {
    std::uint32_t count = ring_.words->tail.load(std::memory_order_seq_cst) - head_;
    if (count == 0) return Popped::Empty;
    if (count > ring_.mask + 1) return Popped::Corrupt;
    slot = ring_.entries[head_ & ring_.mask].load(std::memory_order_relaxed);
    return slot < ring_.slots ? Popped::Got : Popped::Corrupt;
  }
  void advance() { ring_.words->head.store(++head_, std::memory_order_release); }

  bool empty() const { return ring_.words->tail.load(std::memory_order_seq_cst) == head_; }
  std::uint32_t head() const { return head_; }
  std::uint32_t tail() const { return ring_.words->tail.load(std::memory_order_acquire); }

 private:
  Ring ring_ = {};
  std::uint32_t head_ = 0;
};

/// After a push, and after any other change that a sleeper looks at.
inline void wake_sleeper(Word& flag) {
  if (flag.load(std::memory_order_seq_cst) != 0 &&
      flag.exchange(0, std::memory_order_seq_cst) != 0) {
    wake(flag);
  }
}

}  // namespace pergpu::share
