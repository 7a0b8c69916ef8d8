// The producer's side.  What it may fill is in its private list of spare slots, which the free
// rings of all its lanes flow into.  A slot is sent to the consumer that has fewest, which is why
// slots belong to the producer and not to a lane: an item whose consumer died goes to another one
// by its number.
#include <algorithm>

#include "os/clock.h"
#include "share/channel.h"
#include "share/gate.h"
#include "share/recovery.h"

namespace pergpu::share {
namespace {

constexpr const char* kBadFreeRing =
    "a ring of free slots is damaged: another process overwrote its memory";
constexpr const char* kLostProducer =
    "this producer was detached, replaced by another process, or inherited by fork()";

}  // namespace

Producer::Producer(const std::shared_ptr<const Channel::Core>& core, std::uint32_t index, Hold hold,
                   Owner mine, const Inventory& found)
    : Endpoint(core, core->layout.producer(index), index, std::move(hold), mine),
      at_(core->layout.geometry().slots, At::Elsewhere),
      spare_(found.spare) {
  // Nothing is allocated from now on.
  spare_.reserve(at_.size());
  for (std::uint32_t slot : spare_) at_[slot] = At::Spare;
  for (std::uint32_t c = 0; c < layout_.geometry().consumers; ++c) {
    Link link;
    link.ready = PushEnd(layout_.ready(index, c));
    link.free = PopEnd(layout_.free(index, c));
    link.seen = layout_.consumer_owner(c);
    if (link.seen.state != PlaceState::Attached) link.handled = link.seen;  // by the inventory
    link.told = Owner::unpack(layout_.consumer(c).previous.load()).epoch;
    link.told_lost = layout_.lane(index, c).lost.load();
    link.out = found.out[c];
    lanes_.push_back(link);
  }
  sequence_ = place_.sequence.load();
}

Producer::~Producer() { detach(); }

/// What became of consumer c, and what follows.  False: Corrupt.
bool Producer::look(std::uint32_t c) {
  Link& link = lanes_[c];
  Verdict verdict = judge(layout_.consumer(c), layout_.consumer_live(c), is_thorough());
  if (verdict == Verdict::Unsure) look_again_soon();
  link.seen = layout_.consumer_owner(c);
  if (verdict == Verdict::Lives || verdict == Verdict::Unsure) return true;
  bool has_left_things = link.handled != link.seen || verdict == Verdict::Ended;
  bool has_items = link.ready.waiting() != 0;
  if (has_items && !has_left_things) {
    has_items = std::any_of(lanes_.begin(), lanes_.end(), [](const Link& other) {
      return other.seen.state == PlaceState::Attached;
    });
  }
  return !(has_left_things || has_items) || take_over(c);
}

/// Consumer c is gone: its slots are ours again, its items go to others.
bool Producer::take_over(std::uint32_t c) {
  std::optional<Gate> gate = Gate::try_enter(layout_);
  if (!gate) {
    look_again_soon();
    return true;
  }
  Link& link = lanes_[c];
  if (!bury(layout_.consumer(c))) return true;  // another process has taken the place meanwhile
  link.seen = layout_.consumer_owner(c);
  std::vector<std::uint32_t> held;
  if (!find_held(layout_, index_, c, held)) return false;
  for (std::uint32_t slot : held) {
    if (at_[slot] != At::Elsewhere) return false;
    layout_.lane(index_, c).lost.fetch_add(1, std::memory_order_relaxed);
    layout_.descriptor(index_, slot).holder.store(0, std::memory_order_release);
    at_[slot] = At::Spare;
    spare_.push_back(slot);
    --link.out;
  }
  link.handled = link.seen;
  for (std::uint32_t i = 0; i < layout_.geometry().slots; ++i) {
    std::uint32_t to = choose();
    if (lanes_[to].seen.state != PlaceState::Attached) return true;  // they wait for the next one
    Popped popped = move_item(layout_, index_, c, lanes_[to].ready);
    if (popped == Popped::Empty) return true;
    if (popped == Popped::Corrupt) return false;
    --link.out;
    ++lanes_[to].out;
    wake_sleeper(layout_.consumer(to).sleeping);
  }
  return link.ready.waiting() == 0;
}

/// Free slots of all lanes become spare.  False: Corrupt.
bool Producer::drain() {
  for (Link& link : lanes_) {
    std::uint32_t slot = 0;
    Popped popped = link.free.peek(slot);
    for (; popped == Popped::Got; popped = link.free.peek(slot)) {
      if (at_[slot] != At::Elsewhere) return false;
      layout_.descriptor(index_, slot).holder.store(0, std::memory_order_release);
      link.free.advance();
      at_[slot] = At::Spare;
      spare_.push_back(slot);
      --link.out;
    }
    if (popped == Popped::Corrupt) return false;
  }
  return true;
}

/// The attached consumer that has fewest of our items; without any, the place that the next one
/// will take.
std::uint32_t Producer::choose() const {
  auto count = static_cast<std::uint32_t>(lanes_.size());
  std::uint32_t best = count;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t c = (turn_ + i) % count;
    if (lanes_[c].seen.state != PlaceState::Attached) continue;
    if (best == count || lanes_[c].out < lanes_[best].out) best = c;
  }
  return best == count ? 0 : best;
}

bool Producer::report(Acquired& result) {
  for (std::uint32_t c = 0; c < lanes_.size(); ++c) {
    Link& link = lanes_[c];
    Owner gone = Owner::unpack(layout_.consumer(c).previous.load());
    bool has_gone = gone.state == PlaceState::Dead || gone.state == PlaceState::Left;
    if (!has_gone || !is_newer(gone.epoch, link.told)) continue;
    Owner now = layout_.consumer_owner(c);
    if (now.state != PlaceState::Attached && now != link.handled) continue;  // the gate was shut
    link.told = gone.epoch;
    std::uint32_t lost = layout_.lane(index_, c).lost.load();
    result.outcome = gone.state == PlaceState::Dead ? Outcome::PeerDied : Outcome::PeerLeft;
    result.peer = {.index = c, .pid = gone.pid, .lost = lost - link.told_lost};
    link.told_lost = lost;
    return true;
  }
  return false;
}

/// Our flag is up: no item and no process has come.
bool Producer::quiet() const {
  for (std::uint32_t c = 0; c < lanes_.size(); ++c) {
    if (!lanes_[c].free.empty() || layout_.consumer_owner(c) != lanes_[c].seen) return false;
  }
  return true;
}

Acquired Producer::acquire_now() {
  Acquired result;
  if (closed_) {
    result.outcome = Outcome::Ended;
    return result;
  }
  if (!is_ours()) {
    result.outcome = Outcome::Stale;
    result.why = kLostProducer;
    return result;
  }
  for (std::uint32_t c = 0; c < lanes_.size() && corrupt_ == nullptr; ++c) {
    if (!look(c)) corrupt_ = kBadReadyRing;
  }
  looked();
  if (corrupt_ == nullptr && !drain()) corrupt_ = kBadFreeRing;
  if (corrupt_ != nullptr) {
    result.outcome = Outcome::Corrupt;
    result.why = corrupt_;
    return result;
  }
  if (report(result)) return result;
  if (spare_.empty()) {
    result.outcome = Outcome::TimedOut;
    return result;
  }
  std::uint32_t slot = spare_.back();
  spare_.pop_back();
  at_[slot] = At::Held;
  result.outcome = Outcome::Ready;
  result.slot = {.data = layout_.payload(index_, slot),
                 .size = static_cast<std::size_t>(layout_.geometry().slot_bytes),
                 .index = slot,
                 .epoch = epoch()};
  return result;
}

Woken Producer::wait(std::int64_t deadline_ns) {
  start_watching();
  for (std::uint32_t c = 0; c < lanes_.size(); ++c) {
    watch(layout_.consumer_live(c), lanes_[c].seen.state == PlaceState::Attached);
  }
  raise_flag();
  if (quiet()) return doze(deadline_ns);
  lower_flag();
  return Woken::Look;
}

Acquired Producer::acquire(std::int64_t deadline_ns) {
  while (true) {
    Acquired result = acquire_now();
    if (result.outcome != Outcome::TimedOut || deadline_ns <= 0 ||
        (deadline_ns != kForever && os::awake_now_ns() >= deadline_ns)) {
      return result;
    }
    if (wait(deadline_ns) == Woken::Interrupted) {
      result.outcome = Outcome::Interrupted;
      return result;
    }
  }
}

Result<void> Producer::check(const Slot& slot) const {
  if (!is_ours()) return Error{ErrorKind::Unavailable, 0, std::string("channel: ") + kLostProducer};
  if (corrupt_ != nullptr) {
    return Error{ErrorKind::Corrupt, 0, std::string("channel: ") + corrupt_};
  }
  if (slot.epoch != epoch()) {
    return invalid_channel("the slot was acquired by an earlier owner of this place (epoch " +
                           std::to_string(slot.epoch) + ", now " + std::to_string(epoch()) + ")");
  }
  if (slot.index >= at_.size() || at_[slot.index] != At::Held) {
    return invalid_channel("slot " + std::to_string(slot.index) +
                           " isn't held: it was already published or abandoned");
  }
  return {};
}

Result<void> Producer::publish(const Slot& slot, std::uint64_t bytes) {
  if (Result<void> held = check(slot); !held) return held;
  if (closed_) return invalid_channel("this producer is closed");
  if (bytes > layout_.geometry().slot_bytes) {
    return invalid_channel(std::to_string(bytes) + " bytes in a slot of " +
                           std::to_string(layout_.geometry().slot_bytes));
  }
  // Who is there now, and who has given back what: both decide who gets it.
  for (std::uint32_t c = 0; c < lanes_.size(); ++c) lanes_[c].seen = layout_.consumer_owner(c);
  if (lanes_.size() > 1 && !drain()) corrupt_ = kBadFreeRing;
  std::uint32_t to = choose();
  turn_ = (to + 1) % static_cast<std::uint32_t>(lanes_.size());
  Descriptor& descriptor = layout_.descriptor(index_, slot.index);
  descriptor.bytes.store(bytes, std::memory_order_relaxed);
  descriptor.sequence.store(++sequence_, std::memory_order_relaxed);
  place_.sequence.store(sequence_, std::memory_order_relaxed);
  at_[slot.index] = At::Elsewhere;
  ++lanes_[to].out;
  lanes_[to].ready.push(slot.index);
  wake_sleeper(layout_.consumer(to).sleeping);
  return {};
}

Result<void> Producer::abandon(const Slot& slot) {
  if (Result<void> held = check(slot); !held) return held;
  at_[slot.index] = At::Spare;
  spare_.push_back(slot.index);
  return {};
}

void Producer::close() {
  if (closed_ || !is_ours()) return;
  closed_ = true;
  go(PlaceState::Closed);
}

void Producer::detach() {
  if (is_ours()) go(PlaceState::Left);
}

void Producer::go(PlaceState state) {
  leave(state);
  for (std::uint32_t c = 0; c < lanes_.size(); ++c) wake_sleeper(layout_.consumer(c).sleeping);
  let_go();
}

}  // namespace pergpu::share
