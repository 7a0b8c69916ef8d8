// What goes through a channel, whichever kind of channel: slots that are filled, items that are
// read.
//
// How a wait ended is no error: a peer that dies is part of what a channel reports.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pergpu::share {

enum class Outcome {
  Ready,
  TimedOut,
  Interrupted,  // by a signal; nothing else happened
  Ended,        // nothing is left and nothing can come: all closed; or this producer is closed
  PeerDied,     // reported once a death, after what it had published was taken
  PeerLeft,     // detached without close(): reported once, too
  Corrupt,      // shared memory holds what cannot be; this end is of no use any more
  Stale,        // this end is another process's now, was detached, or came here by fork()
};

/// A slot to be filled.
struct Slot {
  std::byte* data = nullptr;
  std::size_t size = 0;
  std::uint32_t index = 0;
  std::uint32_t epoch = 0;  // of the producer that acquired it
};

/// A slot to be read; no process writes to it before it is released.
struct Item {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint64_t sequence = 0;  // counts per producer; one may be left out by a death.  Rising for
                               // each consumer, but for what comes from one that died or left
  std::uint32_t producer = 0;
  std::uint32_t slot = 0;
  std::uint32_t epoch = 0;  // of the consumer that took it
};

/// Who died or left.
struct Peer {
  std::uint32_t index = 0;
  std::uint32_t pid = 0;
  std::uint64_t last_sequence = 0;  // a producer's: the last that came here; 0: none
  std::uint32_t lost = 0;           // a consumer's: our items that it held
};

struct Acquired {
  Outcome outcome = Outcome::TimedOut;
  Slot slot = {};
  Peer peer = {};
  const char* why = "";  // Corrupt and Stale: for people
};

struct Taken {
  Outcome outcome = Outcome::TimedOut;
  Item item = {};
  Peer peer = {};
  const char* why = "";
};

}  // namespace pergpu::share
