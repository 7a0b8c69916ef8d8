// Making a channel, taking a place in it, and looking at one.
#include "share/channel.h"

#include <unistd.h>

#include <algorithm>

#include "os/clock.h"
#include "share/gate.h"
#include "share/recovery.h"

namespace pergpu::share {
namespace {

constexpr std::int64_t kMakerPatienceNs = 500'000'000;
constexpr std::int64_t kMakerPauseNs = 1'000'000;
Error corrupt_rings(const char* what) {
  return Error{
      ErrorKind::Corrupt, 0,
      std::string("channel: ") + what + " are damaged: another process overwrote their memory"};
}

Error is_complete() {
  return Error{ErrorKind::Invalid, EINVAL, "channel: it is complete, so no producer can join"};
}

enum class Kind { Producers, Consumers };

struct Entrance {
  Gate gate;
  std::uint32_t index = 0;
};

/// A place that can be taken: it is vacant, or its process is gone.  `thorough`: asks for every
/// process that seems to live.  REQUIRES: the gate.
std::optional<std::uint32_t> find_place(const Layout& layout, Kind kind, bool thorough,
                                        bool& is_ending) {
  bool producers = kind == Kind::Producers;
  std::uint32_t count = producers ? layout.geometry().producers : layout.geometry().consumers;
  for (std::uint32_t i = 0; i < count; ++i) {
    Place& place = producers ? layout.producer(i) : layout.consumer(i);
    Verdict verdict =
        judge(place, producers ? layout.producer_live(i) : layout.consumer_live(i), thorough);
    is_ending = is_ending || verdict == Verdict::Unsure;
    if (verdict == Verdict::Ended && bury(place)) verdict = Verdict::Gone;
    bool closed = Owner::unpack(place.owner.load()).state == PlaceState::Closed;
    if (verdict == Verdict::Gone && !closed) return i;
  }
  return std::nullopt;
}

/// Goes inside and finds a place.  Waits for one whose owner is about to be gone.
Result<Entrance> enter(const Layout& layout, Kind kind) {
  std::int64_t patience = os::awake_now_ns() + kMakerPatienceNs;
  while (true) {
    Result<Gate> gate = Gate::enter(layout);
    if (!gate) return std::move(gate).error();
    bool is_ending = false;
    std::optional<std::uint32_t> found = find_place(layout, kind, false, is_ending);
    if (!found) found = find_place(layout, kind, true, is_ending);
    if (found) return Entrance{.gate = std::move(*gate), .index = *found};
    std::int64_t now = os::awake_now_ns();
    if (!is_ending || now >= patience) break;
    { Gate leave = std::move(*gate); }
    sleep_until(now + kMakerPauseNs);
  }
  bool producers = kind == Kind::Producers;
  std::uint32_t count = producers ? layout.geometry().producers : layout.geometry().consumers;
  return Error{ErrorKind::Busy, EBUSY,
               std::string("channel: all places for ") + (producers ? "producers" : "consumers") +
                   " (" + std::to_string(count) + ") are closed or taken by running processes"};
}

/// REQUIRES: the gate; the place can be taken, and what its last owner left is in order.
Result<Hold> take_place(const Channel::Core& core, Place& place, std::uint64_t at, Owner& mine) {
  mine = this_process();
  if (mine.start == 0)
    return os_error("attach to a channel: read the start time of this process", EMFILE);
  Result<Hold> hold = Hold::take(core.segment.fd(), at);
  if (!hold) return hold;
  mine.epoch = next_epoch(Owner::unpack(place.owner.load()).epoch);
  place.sleeping.store(0);
  place.owner.store(mine.pack());
  return hold;
}

ChannelState::End describe_end(const Place& place, const Word& live) {
  ChannelState::End end;
  end.owner = Owner::unpack(place.owner.load());
  end.previous = Owner::unpack(place.previous.load());
  Verdict verdict = judge(place, live, true);
  end.alive = verdict == Verdict::Lives || verdict == Verdict::Unsure;
  end.sleeping = end.alive && place.sleeping.load() != 0;
  end.sequence = place.sequence.load();
  return end;
}

/// However the indices change while they are read.
std::uint32_t depth(const RingWords& ring, std::uint32_t slots) {
  std::uint32_t head = ring.head.load();
  return std::min(ring.tail.load() - head, slots);
}

}  // namespace

Result<Channel> Channel::create(const ChannelOptions& options) {
  Result<Geometry> geometry =
      Geometry::plan(options.producers, options.consumers, options.slots_per_lane,
                     options.slot_bytes, options.page_aligned);
  if (!geometry) return std::move(geometry).error();
  Result<Segment> segment =
      Segment::create(options.name, geometry->total_bytes + options.note.size());
  if (!segment) return std::move(segment).error();
  Result<Mapping> mapping = segment->map(View::Shared);
  if (!mapping) return std::move(mapping).error();
  Layout layout = Layout::create(mapping->data(), *geometry, options.name);
  std::copy_n(reinterpret_cast<const std::byte*>(options.note.data()), options.note.size(),
              mapping->data() + geometry->total_bytes);
  return Channel(std::make_shared<const Core>(
      Core{.segment = std::move(*segment), .mapping = std::move(*mapping), .layout = layout}));
}

Result<Channel> Channel::adopt(os::UniqueFd fd) {
  Result<Segment> segment = Segment::adopt(std::move(fd));
  if (!segment) return std::move(segment).error();
  Result<Mapping> mapping = segment->map(View::Shared);
  if (!mapping) return std::move(mapping).error();
  Result<Layout> layout = Layout::read(mapping->data(), segment->size());
  if (!layout) return std::move(layout).error();
  return Channel(std::make_shared<const Core>(
      Core{.segment = std::move(*segment), .mapping = std::move(*mapping), .layout = *layout}));
}

Result<std::unique_ptr<Producer>> Channel::attach_producer() const {
  const Layout& layout = core_->layout;
  if (layout.header().complete.load() != 0) {
    return is_complete();
  }
  Result<Entrance> entrance = enter(layout, Kind::Producers);
  if (!entrance) return std::move(entrance).error();
  std::uint32_t p = entrance->index;
  std::optional<Inventory> found = take_inventory(layout, p);
  if (!found) return corrupt_rings("the rings of a producer");
  Place& place = layout.producer(p);
  std::uint64_t before = place.owner.load();
  Owner mine;
  Result<Hold> hold = take_place(*core_, place, layout.producer_at(p), mine);
  if (!hold) return std::move(hold).error();
  bool is_late = layout.header().complete.load() != 0;  // since a moment: as if it had never come
  if (is_late) place.owner.store(before);
  // They have one more to wait for, or not.
  for (std::uint32_t c = 0; c < geometry().consumers; ++c) {
    wake_sleeper(layout.consumer(c).sleeping);
  }
  if (is_late) return is_complete();
  return std::unique_ptr<Producer>(new Producer(core_, p, std::move(*hold), mine, *found));
}

Result<std::unique_ptr<Consumer>> Channel::attach_consumer() const {
  const Layout& layout = core_->layout;
  Result<Entrance> entrance = enter(layout, Kind::Consumers);
  if (!entrance) return std::move(entrance).error();
  std::uint32_t c = entrance->index;
  if (!return_held(layout, c)) return corrupt_rings("the rings of a consumer");
  Owner mine;
  Result<Hold> hold = take_place(*core_, layout.consumer(c), layout.consumer_at(c), mine);
  if (!hold) return std::move(hold).error();
  std::unique_ptr<Consumer> consumer(new Consumer(core_, c, std::move(*hold), mine));
  for (std::uint32_t p = 0; p < geometry().producers; ++p) {
    wake_sleeper(layout.producer(p).sleeping);
  }
  return consumer;
}

void Channel::complete() const {
  core_->layout.header().complete.store(1);
  for (std::uint32_t c = 0; c < geometry().consumers; ++c) {
    wake_sleeper(core_->layout.consumer(c).sleeping);
  }
}

ChannelState Channel::describe() const {
  const Layout& layout = core_->layout;
  const Geometry& g = geometry();
  ChannelState state;
  state.name = layout.name();
  state.geometry = g;
  state.complete = layout.header().complete.load() != 0;
  for (std::uint32_t p = 0; p < g.producers; ++p) {
    state.producers.push_back(describe_end(layout.producer(p), layout.producer_live(p)));
  }
  for (std::uint32_t c = 0; c < g.consumers; ++c) {
    state.consumers.push_back(describe_end(layout.consumer(c), layout.consumer_live(c)));
  }
  for (std::uint32_t p = 0; p < g.producers; ++p) {
    for (std::uint32_t c = 0; c < g.consumers; ++c) {
      const Lane& lane = layout.lane(p, c);
      state.lanes.push_back({.producer = p,
                             .consumer = c,
                             .ready = depth(lane.ready, g.slots),
                             .free = depth(lane.free, g.slots),
                             .lost = lane.lost.load()});
    }
  }
  return state;
}

int Channel::fd() const { return core_->segment.fd(); }
const Geometry& Channel::geometry() const { return core_->layout.geometry(); }

std::string Channel::note() const {
  const Mapping& mapping = core_->mapping;
  std::uint64_t at = geometry().total_bytes;
  return std::string(reinterpret_cast<const char*>(mapping.data()) + at, mapping.size() - at);
}

}  // namespace pergpu::share
