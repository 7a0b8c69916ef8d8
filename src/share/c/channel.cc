// The C interface: channels and their ends.
#include "share/channel.h"

#include <fcntl.h>
#include <unistd.h>

#include <memory>

#include "share/c/border.h"

using pergpu::Error;
using pergpu::Result;
using namespace pergpu::share;  // this file is of it; its names have to be global

struct pergpu_share_channel {
  Channel channel;
};
struct pergpu_share_producer {
  std::unique_ptr<Producer> end;
};
struct pergpu_share_consumer {
  std::unique_ptr<Consumer> end;
};

static_assert(sizeof(pergpu_share_channel_options) == 40);
static_assert(sizeof(pergpu_share_channel_info) == 48);
static_assert(sizeof(pergpu_share_place_info) == 32);
static_assert(sizeof(pergpu_share_slot) == 24);
static_assert(sizeof(pergpu_share_item) == 40);
static_assert(sizeof(pergpu_share_peer) == 24);
static_assert(sizeof(pergpu_share_acquired) == 64);
static_assert(sizeof(pergpu_share_taken) == 80);
static_assert(PERGPU_SHARE_FOREVER == kForever);

namespace {

pergpu_share_peer peer_of(const Peer& peer) {
  return {.index = peer.index,
          .pid = peer.pid,
          .last_sequence = peer.last_sequence,
          .lost = peer.lost,
          .reserved = 0};
}

Slot slot_of(const pergpu_share_slot& slot) {
  return {.data = static_cast<std::byte*>(slot.data),
          .size = static_cast<std::size_t>(slot.size),
          .index = slot.index,
          .epoch = slot.epoch};
}

Result<ChannelOptions> options_of(const pergpu_share_channel_options* from) {
  Result<pergpu_share_channel_options> read = read_sized(from, "options");
  if (!read) return std::move(read).error();
  Result<bool> page_aligned = flag(read->page_aligned, "page_aligned");
  if (!page_aligned) return std::move(page_aligned).error();
  if (read->reserved != 0) return invalid("options: reserved is not 0");
  ChannelOptions options;
  if (read->name != nullptr) options.name = read->name;
  if (read->producers != 0) options.producers = read->producers;
  if (read->consumers != 0) options.consumers = read->consumers;
  if (read->slots_per_lane != 0) options.slots_per_lane = read->slots_per_lane;
  options.slot_bytes = read->slot_bytes;
  options.page_aligned = *page_aligned;
  return options;
}

}  // namespace

std::int32_t pergpu_share_channel_create(const pergpu_share_channel_options* options,
                                         pergpu_share_channel** channel,
                                         pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(options, channel); !there) return there;
    Result<ChannelOptions> wanted = options_of(options);
    if (!wanted) return std::move(wanted).error();
    Result<Channel> made = Channel::create(*wanted);
    if (!made) return std::move(made).error();
    *channel = new pergpu_share_channel{std::move(*made)};
    return {};
  });
}

std::int32_t pergpu_share_channel_adopt(int fd, pergpu_share_channel** channel,
                                        pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(channel); !there) return there;
    // A copy, because an error leaves the caller's open.
    pergpu::os::UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!copy && errno == EBADF) {
      return invalid("descriptor " + std::to_string(fd) + " is not open");
    }
    if (!copy) return pergpu::os_error("duplicate descriptor " + std::to_string(fd));
    Result<Channel> adopted = Channel::adopt(std::move(copy));
    if (!adopted) return std::move(adopted).error();
    *channel = new pergpu_share_channel{std::move(*adopted)};
    ::close(fd);
    return {};
  });
}

std::int32_t pergpu_share_channel_describe(const pergpu_share_channel* channel,
                                           pergpu_share_channel_info* info,
                                           pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(channel); !there) return there;
    if (Result<void> good = check_sized(info, "info"); !good) return good;
    const Geometry& geometry = channel->channel.geometry();
    pergpu_share_channel_info told = {};
    told.fd = channel->channel.fd();
    told.producers = geometry.producers;
    told.consumers = geometry.consumers;
    told.slots_per_lane = geometry.slots_per_lane;
    told.page_aligned = geometry.page_aligned ? 1 : 0;
    told.slot_bytes = geometry.slot_bytes;
    told.total_bytes = geometry.total_bytes;
    told.complete = channel->channel.core().layout.header().complete.load() != 0 ? 1 : 0;
    write_sized(info, told);
    return {};
  });
}

std::int32_t pergpu_share_channel_place(const pergpu_share_channel* channel, std::uint32_t side,
                                        std::uint32_t index, pergpu_share_place_info* info,
                                        pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(channel); !there) return there;
    if (Result<void> good = check_sized(info, "info"); !good) return good;
    if (side > PERGPU_SHARE_CONSUMERS) {
      return invalid("there is no side " + std::to_string(side));
    }
    const bool producers = side == PERGPU_SHARE_PRODUCERS;
    ChannelState state = channel->channel.describe();
    const auto& ends = producers ? state.producers : state.consumers;
    if (index >= ends.size()) {
      return invalid("there is no place " + std::to_string(index) + ", there are " +
                     std::to_string(ends.size()));
    }
    pergpu_share_place_info told = {};
    told.pid = ends[index].owner.pid;
    told.alive = ends[index].alive ? 1 : 0;
    told.sleeping = ends[index].sleeping ? 1 : 0;
    told.sequence = ends[index].sequence;
    for (const ChannelState::LaneState& lane : state.lanes) {
      if ((producers ? lane.producer : lane.consumer) != index) continue;
      told.ready += lane.ready;
      told.lost += lane.lost;
    }
    write_sized(info, told);
    return {};
  });
}

std::int32_t pergpu_share_channel_complete(const pergpu_share_channel* channel,
                                           pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(channel); !there) return there;
    channel->channel.complete();
    return {};
  });
}

void pergpu_share_channel_free(pergpu_share_channel* channel) {
  quietly([&] { delete channel; });
}

std::int32_t pergpu_share_producer_attach(const pergpu_share_channel* channel,
                                          pergpu_share_producer** producer,
                                          pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(channel, producer); !there) return there;
    Result<std::unique_ptr<Producer>> end = channel->channel.attach_producer();
    if (!end) return std::move(end).error();
    *producer = new pergpu_share_producer{std::move(*end)};
    return {};
  });
}

std::int32_t pergpu_share_producer_index(const pergpu_share_producer* producer,
                                         std::uint32_t* index, pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(producer, index); !there) return there;
    *index = producer->end->index();
    return {};
  });
}

std::int32_t pergpu_share_producer_acquire(pergpu_share_producer* producer, std::int64_t deadline,
                                           pergpu_share_acquired* acquired,
                                           pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(producer); !there) return there;
    if (Result<void> good = check_sized(acquired, "acquired"); !good) return good;
    Acquired got = producer->end->acquire(deadline);
    pergpu_share_acquired told = {};
    told.outcome = outcome_of(got.outcome);
    told.slot = {.data = got.slot.data,
                 .size = got.slot.size,
                 .index = got.slot.index,
                 .epoch = got.slot.epoch};
    told.peer = peer_of(got.peer);
    told.why = got.why;
    write_sized(acquired, told);
    return {};
  });
}

std::int32_t pergpu_share_producer_publish(pergpu_share_producer* producer,
                                           const pergpu_share_slot* slot, std::uint64_t bytes,
                                           pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(producer, slot); !there) return there;
    return producer->end->publish(slot_of(*slot), bytes);
  });
}

std::int32_t pergpu_share_producer_abandon(pergpu_share_producer* producer,
                                           const pergpu_share_slot* slot,
                                           pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(producer, slot); !there) return there;
    return producer->end->abandon(slot_of(*slot));
  });
}

std::int32_t pergpu_share_producer_close(pergpu_share_producer* producer,
                                         pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(producer); !there) return there;
    producer->end->close();
    return {};
  });
}

void pergpu_share_producer_free(pergpu_share_producer* producer) {
  quietly([&] { delete producer; });
}

std::int32_t pergpu_share_consumer_attach(const pergpu_share_channel* channel,
                                          pergpu_share_consumer** consumer,
                                          pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(channel, consumer); !there) return there;
    Result<std::unique_ptr<Consumer>> end = channel->channel.attach_consumer();
    if (!end) return std::move(end).error();
    *consumer = new pergpu_share_consumer{std::move(*end)};
    return {};
  });
}

std::int32_t pergpu_share_consumer_index(const pergpu_share_consumer* consumer,
                                         std::uint32_t* index, pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(consumer, index); !there) return there;
    *index = consumer->end->index();
    return {};
  });
}

std::int32_t pergpu_share_consumer_take(pergpu_share_consumer* consumer, std::int64_t deadline,
                                        pergpu_share_taken* taken, pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(consumer); !there) return there;
    if (Result<void> good = check_sized(taken, "taken"); !good) return good;
    Taken got = consumer->end->take(deadline);
    pergpu_share_taken told = {};
    told.outcome = outcome_of(got.outcome);
    told.item = {.data = got.item.data,
                 .bytes = got.item.bytes,
                 .sequence = got.item.sequence,
                 .producer = got.item.producer,
                 .slot = got.item.slot,
                 .epoch = got.item.epoch,
                 .reserved = 0};
    told.peer = peer_of(got.peer);
    told.why = got.why;
    write_sized(taken, told);
    return {};
  });
}

std::int32_t pergpu_share_consumer_release(pergpu_share_consumer* consumer,
                                           const pergpu_share_item* item,
                                           pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(consumer, item); !there) return there;
    Item released;
    released.sequence = item->sequence;
    released.producer = item->producer;
    released.slot = item->slot;
    released.epoch = item->epoch;
    return consumer->end->release(released);
  });
}

void pergpu_share_consumer_free(pergpu_share_consumer* consumer) {
  quietly([&] { delete consumer; });
}
