// A channel: arrays go from producers to consumers, processes of one machine, without being copied
// or pickled, and when one of them is killed, the others see it and go on.
//
//   Result<Channel> channel = Channel::create({.name = "batches", .slots_per_lane = 4, .slot_bytes
//   = n}); … in another process, which got the descriptor: Result<std::unique_ptr<Producer>>
//   producer = Channel::adopt(fd)->attach_producer(); Acquired slot =
//   (*producer)->acquire(deadline);   // fill slot.slot.data
//   (*producer)->publish(slot.slot, bytes);
//
// Each item goes to one consumer.  Slots may be held several at once and given back in any order.
// One thread at a time may use a producer or a consumer; there are no locks, threads, allocations
// or descriptors on the way of an item.  What is promised when a process dies: docs/share.md.
//
// Deadlines are absolute, in os::awake_now_ns(); kForever waits as long as it takes, 0 not at all.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "os/fd.h"
#include "result.h"
#include "share/channel_layout.h"
#include "share/segment.h"
#include "share/slot.h"

namespace pergpu::share {

class Producer;
class Consumer;
struct Inventory;

struct ChannelOptions {
  std::string name = "channel";  // for people
  std::uint32_t producers = 1;   // how many there can be at once
  std::uint32_t consumers = 1;
  std::uint32_t slots_per_lane = 4;  // each producer has this many for each consumer
  std::uint64_t slot_bytes = 0;
  bool page_aligned = false;  // slots begin at pages: to be pinned for a GPU
  std::string note = {};      // what its users have agreed upon, for a process that adopts it
};

/// What a process that looks at a channel sees; a moment later it may be otherwise.
struct ChannelState {
  struct End {
    Owner owner = {};
    Owner previous = {};         // the last that died or left
    bool alive = false;          // attached, and its process runs
    bool sleeping = false;       // waits for something to do
    std::uint64_t sequence = 0;  // producer: the last number given; consumer: items taken
  };
  struct LaneState {
    std::uint32_t producer = 0;
    std::uint32_t consumer = 0;
    std::uint32_t ready = 0;  // published, not taken
    std::uint32_t free = 0;   // released, not taken back
    std::uint32_t lost = 0;   // in the hands of consumers that died
  };
  std::string name = {};
  Geometry geometry = {};
  bool complete = false;
  std::vector<End> producers = {};
  std::vector<End> consumers = {};
  std::vector<LaneState> lanes = {};
};

class Channel {
 public:
  /// ErrorKind::Invalid: impossible options; Full: not so much memory.
  static Result<Channel> create(const ChannelOptions& options);
  /// One that another process made.  ErrorKind::Corrupt: the segment holds something else.
  static Result<Channel> adopt(os::UniqueFd fd);

  /// Takes the first place that no living process has.  ErrorKind::Busy: there is none.
  Result<std::unique_ptr<Producer>> attach_producer() const;
  Result<std::unique_ptr<Consumer>> attach_consumer() const;

  /// No producer will come any more: consumers need not wait for one in a place that is vacant, or
  /// whose process left or died.
  void complete() const;

  ChannelState describe() const;
  int fd() const;
  const Geometry& geometry() const;
  /// A copy of what create() was given; every process with the channel can write over it.
  std::string note() const;

  /// The memory, and where its parts lie.
  struct Core {
    Segment segment;
    Mapping mapping;
    Layout layout;
  };
  const Core& core() const { return *core_; }

 private:
  explicit Channel(std::shared_ptr<const Core> core) : core_(std::move(core)) {}

  std::shared_ptr<const Core> core_;
};

/// What the two kinds of ends have in common: a place, and waiting.
class Endpoint {
 public:
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  std::uint32_t index() const { return index_; }
  std::uint32_t epoch() const { return mine_.epoch; }

 protected:
  Endpoint(std::shared_ptr<const Channel::Core> core, Place& place, std::uint32_t index, Hold hold,
           Owner mine)
      : core_(std::move(core)),
        layout_(core_->layout),
        place_(place),
        index_(index),
        hold_(std::move(hold)),
        mine_(mine) {}
  ~Endpoint() = default;

  /// The place is still ours, in this process.
  bool is_ours() const;
  /// Gives the place up, with what it says from now on.  Then: wake the other side, let_go().
  void leave(PlaceState state);
  /// Last of all.  A process that dies between lowering another's flag and waking it is found out
  /// by its liveness word only.
  void let_go() { hold_.release(); }
  // Sleeping: start_watching(), watch() each end of the other side, raise_flag(), see that there is
  // still nothing to do, and doze(); or lower_flag().
  void start_watching();
  void watch(Word& live, bool is_attached);
  void raise_flag();
  void lower_flag();
  Woken doze(std::int64_t deadline_ns);
  /// Look again soon: a process is about to be gone, or the gate was shut.
  void look_again_soon() { soon_ = true; }
  /// Time to ask for processes at whose end nothing hints.
  bool is_thorough() const { return thorough_; }
  void looked() { thorough_ = false; }

  std::shared_ptr<const Channel::Core> core_;
  const Layout& layout_;
  Place& place_;
  std::uint32_t index_ = 0;
  const char* corrupt_ = nullptr;  // why this end is of no use any more

 private:
  Hold hold_;
  Owner mine_ = {};
  std::vector<Watched> watched_;
  bool soon_ = false;
  std::int64_t backoff_ns_ = 0;
  std::int64_t thorough_at_ns_ = 0;
  bool thorough_ = false;
};

class Producer final : public Endpoint {
 public:
  /// Leaves without close(); slots that are held are given up.
  ~Producer();

  Acquired acquire(std::int64_t deadline_ns);
  /// Sleeps until acquire() may have more to say than TimedOut, which it has just said.
  Woken wait(std::int64_t deadline_ns);
  /// ErrorKind::Invalid: not a slot that this producer holds, or more bytes than it has.
  Result<void> publish(const Slot& slot, std::uint64_t bytes);
  Result<void> abandon(const Slot& slot);
  /// Nothing more will come from here.  Consumers end when all producers have closed.
  void close();
  /// As the destructor.
  void detach();

 private:
  friend class Channel;
  enum class At : std::uint8_t { Elsewhere, Spare, Held };
  struct Link {
    PushEnd ready;
    PopEnd free;
    Owner seen;              // as of the last look
    Owner handled;           // whose things were taken back
    std::uint32_t told = 0;  // epoch of the last owner whose end was reported
    std::uint32_t told_lost = 0;
    std::int64_t out = 0;  // slots that went there and did not come back
  };
  Producer(const std::shared_ptr<const Channel::Core>& core, std::uint32_t index, Hold hold,
           Owner mine, const Inventory& found);

  Acquired acquire_now();
  bool look(std::uint32_t c);
  bool take_over(std::uint32_t c);
  bool drain();
  bool quiet() const;
  std::uint32_t choose() const;
  bool report(Acquired& result);
  void go(PlaceState state);
  Result<void> check(const Slot& slot) const;

  std::vector<Link> lanes_;
  std::vector<At> at_;
  std::vector<std::uint32_t> spare_;
  std::uint64_t sequence_ = 0;
  mutable std::uint32_t turn_ = 0;
  bool closed_ = false;
};

class Consumer final : public Endpoint {
 public:
  /// Releases what is held, and leaves.
  ~Consumer();

  Taken take(std::int64_t deadline_ns);
  /// Sleeps until take() may have more to say than TimedOut, which it has just said.  Meanwhile
  /// another thread may call release(), and nothing else.
  Woken wait(std::int64_t deadline_ns);
  /// ErrorKind::Invalid: not an item that this consumer holds.
  Result<void> release(const Item& item);
  /// As the destructor.
  void detach();

 private:
  friend class Channel;
  struct Link {
    PopEnd ready;
    PushEnd free;
    Owner seen;
    Owner rescued;           // whose last items were looked after
    std::uint32_t told = 0;  // epoch of the last owner whose end was reported
    std::uint32_t telling = 0;
    std::uint32_t drained_at = 0;  // where the ring's head is when that is to be reported
    std::uint64_t last_sequence = 0;
    std::vector<bool> held;
  };
  Consumer(const std::shared_ptr<const Channel::Core>& core, std::uint32_t index, Hold hold,
           Owner mine);

  Taken take_now();
  Popped pop(Taken& result);
  void look(std::uint32_t p);
  bool report(Taken& result);
  bool ended() const;
  bool quiet() const;

  std::vector<Link> lanes_;
  std::uint32_t turn_ = 0;
  std::uint32_t takes_ = 0;
  bool complete_ = false;  // as of the last look
  std::uint64_t taken_ = 0;
};

}  // namespace pergpu::share
