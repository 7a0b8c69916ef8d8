// See the header, and channel_layout.h for what rings and holders say together.
#include "share/recovery.h"

#include <algorithm>

namespace pergpu::share {
namespace {

bool is_gone(const Owner& owner) { return owner.state != PlaceState::Attached; }

/// Marks the slots in a ring of which at least one end stands still.
bool mark(const Ring& ring, std::vector<bool>& in_ring) {
  std::uint32_t head = ring.words->head.load(std::memory_order_acquire);
  std::uint32_t tail = ring.words->tail.load(std::memory_order_acquire);
  if (tail - head > ring.mask + 1) return false;
  for (; head != tail; ++head) {
    std::uint32_t slot = ring.entries[head & ring.mask].load(std::memory_order_relaxed);
    if (slot >= ring.slots) return false;
    in_ring[slot] = true;
  }
  return true;
}

/// All rings of producer p, whose ends stand still.
bool mark_all(const Layout& layout, std::uint32_t p, std::vector<bool>& in_ring) {
  for (std::uint32_t c = 0; c < layout.geometry().consumers; ++c) {
    if (!mark(layout.ready(p, c), in_ring) || !mark(layout.free(p, c), in_ring)) return false;
  }
  return true;
}

std::uint32_t holder_of(const Layout& layout, std::uint32_t p, std::uint32_t slot) {
  return layout.descriptor(p, slot).holder.load(std::memory_order_acquire);
}

void count_lost(const Layout& layout, std::uint32_t p, std::uint32_t c) {
  layout.lane(p, c).lost.fetch_add(1, std::memory_order_relaxed);
}

bool has_ready(const Layout& layout, std::uint32_t p, std::uint32_t c) {
  const RingWords& words = layout.lane(p, c).ready;
  return words.tail.load() != words.head.load();
}

}  // namespace

Verdict judge(const Place& place, const Word& live, bool thorough) {
  Owner owner = Owner::unpack(place.owner.load());
  if (is_gone(owner)) return Verdict::Gone;
  bool hint = hints_at_death(live);
  if (!hint && !thorough) return Verdict::Lives;
  if (has_ended(owner)) return Verdict::Ended;
  return hint ? Verdict::Unsure : Verdict::Lives;
}

bool bury(Place& place) {
  std::uint64_t word = place.owner.load();
  Owner owner = Owner::unpack(word);
  if (is_gone(owner)) return true;
  if (!has_ended(owner)) return false;
  std::uint64_t dead = owner.with(PlaceState::Dead).pack();
  place.previous.store(dead);  // first: a process that sees the place empty can see why
  return place.owner.compare_exchange_strong(word, dead);
}

bool find_held(const Layout& layout, std::uint32_t p, std::uint32_t c,
               std::vector<std::uint32_t>& found) {
  std::vector<bool> in_ring(layout.geometry().slots);
  if (!mark(layout.ready(p, c), in_ring) || !mark(layout.free(p, c), in_ring)) return false;
  for (std::uint32_t slot = 0; slot < in_ring.size(); ++slot) {
    if (!in_ring[slot] && holder_of(layout, p, slot) == c + 1) found.push_back(slot);
  }
  return true;
}

bool return_held(const Layout& layout, std::uint32_t c) {
  for (std::uint32_t p = 0; p < layout.geometry().producers; ++p) {
    std::vector<std::uint32_t> held;
    if (!find_held(layout, p, c, held)) return false;
    PushEnd free(layout.free(p, c));
    for (std::uint32_t slot : held) {
      count_lost(layout, p, c);
      free.push(slot);
    }
    if (!held.empty()) wake_sleeper(layout.producer(p).sleeping);
  }
  return true;
}

std::optional<Inventory> take_inventory(const Layout& layout, std::uint32_t p) {
  const Geometry& geometry = layout.geometry();
  Inventory found;
  // Before the rings: who leaves meanwhile gives back what it holds, which is in no ring as we saw
  // them.
  std::vector<bool> gone;
  for (std::uint32_t c = 0; c < geometry.consumers; ++c) {
    gone.push_back(is_gone(layout.consumer_owner(c)));
  }
  std::vector<bool> in_ring(geometry.slots);
  for (std::uint32_t c = 0; c < geometry.consumers; ++c) {
    auto before = std::count(in_ring.begin(), in_ring.end(), true);
    if (!mark(layout.ready(p, c), in_ring) || !mark(layout.free(p, c), in_ring)) {
      return std::nullopt;
    }
    auto count = std::count(in_ring.begin(), in_ring.end(), true) - before;
    found.out.push_back(static_cast<std::uint32_t>(count));
  }
  for (std::uint32_t slot = 0; slot < geometry.slots; ++slot) {
    if (in_ring[slot]) continue;
    std::uint32_t holder = holder_of(layout, p, slot);
    if (holder == kMoving) {
      PushEnd(layout.ready(p, 0)).push(slot);
      ++found.out[0];
      wake_sleeper(layout.consumer(0).sleeping);
      continue;
    }
    if (holder >= 1 && holder <= geometry.consumers) {
      if (!gone[holder - 1]) {  // it reads, and gives it back or has given it back
        ++found.out[holder - 1];
        continue;
      }
      count_lost(layout, p, holder - 1);
    }
    layout.descriptor(p, slot).holder.store(0, std::memory_order_release);
    found.spare.push_back(slot);
  }
  return found;
}

Popped move_item(const Layout& layout, std::uint32_t p, std::uint32_t from, PushEnd& to) {
  PopEnd source(layout.ready(p, from));
  std::uint32_t slot = 0;
  Popped popped = source.peek(slot);
  if (popped != Popped::Got) return popped;
  layout.descriptor(p, slot).holder.store(kMoving, std::memory_order_release);
  source.advance();
  to.push(slot);
  return Popped::Got;
}

bool rescue(const Layout& layout, std::uint32_t p, std::uint32_t me) {
  const Geometry& geometry = layout.geometry();
  if (!is_gone(layout.producer_owner(p))) return true;
  std::vector<bool> in_ring(geometry.slots);
  if (!mark_all(layout, p, in_ring)) return false;
  PushEnd mine(layout.ready(p, me));
  for (std::uint32_t slot = 0; slot < geometry.slots; ++slot) {
    if (!in_ring[slot] && holder_of(layout, p, slot) == kMoving) mine.push(slot);
  }
  for (std::uint32_t c = 0; c < geometry.consumers; ++c) {
    if (c == me || !has_ready(layout, p, c)) continue;
    if (hints_at_death(layout.consumer_live(c)) && !bury(layout.consumer(c))) continue;
    if (!is_gone(layout.consumer_owner(c))) continue;
    Popped popped = Popped::Got;
    // A ring holds no more than there are slots: an index that runs away ends here.
    for (std::uint32_t i = 0; i <= geometry.slots && popped == Popped::Got; ++i) {
      popped = move_item(layout, p, c, mine);
    }
    if (popped != Popped::Empty) return false;
  }
  return true;
}

bool needs_rescue(const Layout& layout, std::uint32_t p, std::uint32_t me) {
  for (std::uint32_t c = 0; c < layout.geometry().consumers; ++c) {
    if (c == me || !has_ready(layout, p, c)) continue;
    Verdict verdict = judge(layout.consumer(c), layout.consumer_live(c), false);
    if (verdict == Verdict::Gone || verdict == Verdict::Ended) return true;
  }
  return false;
}

}  // namespace pergpu::share
