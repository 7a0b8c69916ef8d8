// The consumer's side: it takes from its lanes in turn, and looks after what producers left that
// are gone.  The holder of a slot is written before the slot leaves its ring (channel_layout.h).
#include "os/clock.h"
#include "share/channel.h"
#include "share/gate.h"
#include "share/recovery.h"

namespace pergpu::share {
namespace {

constexpr const char* kLostConsumer =
    "this consumer was detached, replaced by another process, or inherited by fork()";
/// So often producers are looked at while there is something to take.
constexpr std::uint32_t kLookEvery = 64;

}  // namespace

Consumer::Consumer(const std::shared_ptr<const Channel::Core>& core, std::uint32_t index, Hold hold,
                   Owner mine)
    : Endpoint(core, core->layout.consumer(index), index, std::move(hold), mine) {
  for (std::uint32_t p = 0; p < layout_.geometry().producers; ++p) {
    Link link;
    link.ready = PopEnd(layout_.ready(p, index));
    link.free = PushEnd(layout_.free(p, index));
    link.seen = layout_.producer_owner(p);
    link.held.resize(layout_.geometry().slots);
    // An end that is gone without a successor is reported; an earlier one is no longer of interest.
    Owner previous = Owner::unpack(layout_.producer(p).previous.load());
    if (previous.epoch != link.seen.epoch) link.told = previous.epoch;
    lanes_.push_back(std::move(link));
  }
  taken_ = place_.sequence.load();
}

Consumer::~Consumer() { detach(); }

Popped Consumer::pop(Taken& result) {
  auto count = static_cast<std::uint32_t>(lanes_.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t p = (turn_ + i) % count;
    Link& link = lanes_[p];
    std::uint32_t slot = 0;
    Popped popped = link.ready.peek(slot);
    if (popped == Popped::Empty) continue;
    if (popped == Popped::Corrupt || link.held[slot]) return Popped::Corrupt;
    Descriptor& descriptor = layout_.descriptor(p, slot);
    std::uint64_t bytes = descriptor.bytes.load(std::memory_order_relaxed);
    if (bytes > layout_.geometry().slot_bytes) return Popped::Corrupt;
    descriptor.holder.store(index_ + 1, std::memory_order_release);
    link.ready.advance();
    link.held[slot] = true;
    link.last_sequence = descriptor.sequence.load(std::memory_order_relaxed);
    place_.sequence.store(++taken_, std::memory_order_relaxed);
    turn_ = (p + 1) % count;
    result.outcome = Outcome::Ready;
    result.item = {.data = layout_.payload(p, slot),
                   .bytes = static_cast<std::size_t>(bytes),
                   .sequence = link.last_sequence,
                   .producer = p,
                   .slot = slot,
                   .epoch = epoch()};
    return Popped::Got;
  }
  return Popped::Empty;
}

/// What became of producer p; writes a death down and takes over what lies in lanes of dead
/// consumers.
void Consumer::look(std::uint32_t p) {
  Link& link = lanes_[p];
  Verdict verdict = judge(layout_.producer(p), layout_.producer_live(p), is_thorough());
  if (verdict == Verdict::Unsure) look_again_soon();
  link.seen = layout_.producer_owner(p);
  if (verdict == Verdict::Lives || verdict == Verdict::Unsure) return;
  if (verdict == Verdict::Gone && link.rescued == link.seen && !needs_rescue(layout_, p, index_)) {
    return;
  }
  std::optional<Gate> gate = Gate::try_enter(layout_);
  if (!gate) {
    look_again_soon();
    return;
  }
  if (!bury(layout_.producer(p))) return;  // another process has taken the place meanwhile
  link.seen = layout_.producer_owner(p);
  if (!rescue(layout_, p, index_)) corrupt_ = kBadReadyRing;
  link.rescued = link.seen;
}

/// Reports a producer's end once what it had published for us was taken.
bool Consumer::report(Taken& result) {
  for (std::uint32_t p = 0; p < lanes_.size(); ++p) {
    Link& link = lanes_[p];
    Owner gone = Owner::unpack(layout_.producer(p).previous.load());
    bool has_gone = gone.state == PlaceState::Dead || gone.state == PlaceState::Left;
    if (!has_gone || !is_newer(gone.epoch, link.told)) continue;
    if (link.seen.state != PlaceState::Attached && link.rescued != link.seen) continue;
    if (link.telling != gone.epoch) {
      link.telling = gone.epoch;
      link.drained_at = link.ready.tail();
    }
    if (static_cast<std::int32_t>(link.ready.head() - link.drained_at) < 0) continue;
    link.told = gone.epoch;
    result.outcome = gone.state == PlaceState::Dead ? Outcome::PeerDied : Outcome::PeerLeft;
    result.peer = {.index = p, .pid = gone.pid, .last_sequence = link.last_sequence};
    return true;
  }
  return false;
}

bool Consumer::ended() const {
  for (const Link& link : lanes_) {
    if (link.seen.state == PlaceState::Attached) return false;
    if (link.seen.state != PlaceState::Closed && !complete_) return false;  // another may come
    if (link.seen.state != PlaceState::Vacant && link.rescued != link.seen) return false;
  }
  for (const Link& link : lanes_) {
    if (!link.ready.empty()) return false;
  }
  return true;
}

/// Our flag is up: no item has come, and no process has come or gone.
bool Consumer::quiet() const {
  if ((layout_.header().complete.load() != 0) != complete_) return false;
  for (std::uint32_t p = 0; p < lanes_.size(); ++p) {
    if (!lanes_[p].ready.empty() || layout_.producer_owner(p) != lanes_[p].seen) return false;
  }
  return true;
}

Taken Consumer::take_now() {
  Taken result;
  if (!is_ours()) {
    result.outcome = Outcome::Stale;
    result.why = kLostConsumer;
    return result;
  }
  bool busy = ++takes_ % kLookEvery != 0;
  Popped popped = Popped::Empty;
  if (busy && corrupt_ == nullptr) popped = pop(result);
  if (popped == Popped::Got) return result;
  // Before the places: who attaches looks at these two the other way round.
  complete_ = layout_.header().complete.load() != 0;
  for (std::uint32_t p = 0; p < lanes_.size() && corrupt_ == nullptr; ++p) look(p);
  looked();
  if (popped == Popped::Corrupt) corrupt_ = kBadReadyRing;
  if (corrupt_ == nullptr) {
    if (report(result)) return result;
    // Looking comes after popping: what was published before a producer closed is there now.
    popped = pop(result);
    if (popped == Popped::Got) return result;
    if (popped == Popped::Corrupt) corrupt_ = kBadReadyRing;
  }
  if (corrupt_ != nullptr) {
    result.outcome = Outcome::Corrupt;
    result.why = corrupt_;
  } else {
    result.outcome = ended() ? Outcome::Ended : Outcome::TimedOut;
  }
  return result;
}

Woken Consumer::wait(std::int64_t deadline_ns) {
  start_watching();
  for (std::uint32_t p = 0; p < lanes_.size(); ++p) {
    watch(layout_.producer_live(p), lanes_[p].seen.state == PlaceState::Attached);
  }
  raise_flag();
  if (quiet()) return doze(deadline_ns);
  lower_flag();
  return Woken::Look;
}

Taken Consumer::take(std::int64_t deadline_ns) {
  while (true) {
    Taken result = take_now();
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

Result<void> Consumer::release(const Item& item) {
  if (!is_ours()) return Error{ErrorKind::Unavailable, 0, std::string("channel: ") + kLostConsumer};
  if (item.epoch != epoch()) {
    return Error{ErrorKind::Invalid, EINVAL,
                 "channel: the item was taken by an earlier owner of this place (epoch " +
                     std::to_string(item.epoch) + ", now " + std::to_string(epoch()) + ")"};
  }
  bool known = item.producer < lanes_.size() && item.slot < layout_.geometry().slots;
  if (!known || !lanes_[item.producer].held[item.slot]) {
    return Error{ErrorKind::Invalid, EINVAL,
                 "channel: slot " + std::to_string(item.slot) + " of producer " +
                     std::to_string(item.producer) + " isn't held: it was already released"};
  }
  Link& link = lanes_[item.producer];
  link.held[item.slot] = false;
  link.free.push(item.slot);
  wake_sleeper(layout_.producer(item.producer).sleeping);
  return {};
}

void Consumer::detach() {
  if (!is_ours()) return;
  for (Link& link : lanes_) {
    for (std::uint32_t slot = 0; slot < link.held.size(); ++slot) {
      if (link.held[slot]) link.free.push(slot);
      link.held[slot] = false;
    }
  }
  leave(PlaceState::Left);
  for (std::uint32_t p = 0; p < lanes_.size(); ++p) wake_sleeper(layout_.producer(p).sleeping);
  let_go();
}

}  // namespace pergpu::share
