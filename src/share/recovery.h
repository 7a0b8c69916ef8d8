// What is done with the ends of a channel whose owner is gone: dead, left, or closed.
//
// Everything here is done by a process that is inside the gate and acts for an end without a
// process: then each word of the rings still has one writer.  The other end of a lane may be alive
// and moving; its index is read first, holders afterwards, so a slot that it takes meanwhile is
// seen in the ring, or with its new holder, and never without one.
//
// The process that does this may be killed at any instruction, too: what it left is what the next
// one finds and goes on with.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "share/channel_layout.h"

namespace pergpu::share {

enum class Verdict {
  Lives,
  Gone,    // not attached: vacant, closed, left, or dead and written down
  Ended,   // attached, and its process has ended: to be written down
  Unsure,  // a thread ended; the process may be about to follow
};

/// `thorough`: asks for the process even if nothing hints at its end.  No gate is needed.
Verdict judge(const Place& place, const Word& live, bool thorough);

// ---- REQUIRES: the gate ----

/// Writes down that the owner is dead if it is.  False: it lives.
bool bury(Place& place);

/// `found`: slots of producer p that consumer c, which is gone, had in its hands.  False: the rings
/// make no sense.
bool find_held(const Layout& layout, std::uint32_t p, std::uint32_t c,
               std::vector<std::uint32_t>& found);

/// For the next owner of consumer c's place, before it is one: what the last one held goes back to
/// the producers.  False: the rings make no sense.
bool return_held(const Layout& layout, std::uint32_t c);

/// What the next owner of a producer's place finds.
struct Inventory {
  std::vector<std::uint32_t> spare = {};  // slots at its disposal
  std::vector<std::uint32_t> out = {};    // for each consumer, slots that come back by its lane
};
/// For the next owner of producer p's place, before it is one.  What was published stays so.
/// nullopt: the rings make no sense.
std::optional<Inventory> take_inventory(const Layout& layout, std::uint32_t p);

/// One published item goes from the lane of consumer `from`, which is gone, to the end of another
/// lane of the same producer, for which the caller acts.  Empty: there is none.
Popped move_item(const Layout& layout, std::uint32_t p, std::uint32_t from, PushEnd& to);

/// For consumer `me`: what producer p, which is gone, published for consumers that are gone, too.
/// False: the rings make no sense.
bool rescue(const Layout& layout, std::uint32_t p, std::uint32_t me);

// ---- no gate is needed ----

/// Whether rescue() has something to do: a look that may be too early, not too late.
bool needs_rescue(const Layout& layout, std::uint32_t p, std::uint32_t me);

}  // namespace pergpu::share
