// What lies in the segment of a channel (docs/share.md).
//
//   header | place of each producer | place of each consumer | lanes | descriptors | slots | note
//
// Producer p has a pool of slots.  A lane is a pair (p, c): a ring that takes numbers of filled
// slots from p to c, and one that brings them back.  A slot that is in no ring is in the hands of
// whom its descriptor's holder names; the holder is written BEFORE the slot is taken from a ring,
// so at any moment at which a process may die rings and holders together say where each slot is:
//
//   in a ready ring   published, whatever the holder says
//   in a free ring    free, whatever the holder says
//   in no ring        holder 0: the producer's (free or being filled); c + 1: consumer c reads it;
//                     kMoving: published, on its way from one ready ring to another
//
// All geometry is read once and checked; from then on only this process's copy of it counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "result.h"
#include "share/liveness.h"
#include "share/ring.h"

namespace pergpu::share {

inline constexpr const char* kBadReadyRing =
    "a ring of published items is damaged: another process overwrote its memory";
Error invalid_channel(std::string message);

constexpr std::uint64_t kChannelMagic = 0x6c6e6843'75677065;  // "epguChnl"
constexpr std::uint32_t kChannelAbi = 1;
/// With the endpoint's own flag, what one wait can watch.
constexpr std::uint32_t kMostEnds = kMostWatched - 1;
constexpr std::uint32_t kMostSlots = 1U << 16;

/// What lies at the beginning of the segment; constant after creation, up to `gate`.
struct ChannelHeader {
  std::uint64_t magic;
  std::uint32_t abi;
  std::uint32_t page_bytes;
  std::uint32_t producers;
  std::uint32_t consumers;
  std::uint32_t slots_per_lane;
  std::uint32_t page_aligned;
  std::uint64_t slot_bytes;
  std::uint64_t total_bytes;
  char name[64];
  alignas(64) std::atomic<std::uint64_t> gate;  // who changes places right now (share/gate.h)
  Word complete;                                // no place that is vacant will be taken any more
};

/// The first bytes of a place; its last eight are the liveness word and four unused ones.
struct Place {
  alignas(64) Word sleeping;
  alignas(64) std::atomic<std::uint64_t> owner;     // Owner
  std::atomic<std::uint64_t> previous;              // the last owner that died or left
  alignas(64) std::atomic<std::uint64_t> sequence;  // producer: last number given; consumer: taken
};

struct Lane {
  RingWords ready;
  RingWords free;
  alignas(64) Word lost;  // slots that were in the hands of a consumer when it died
};

constexpr std::uint32_t kMoving = 0xFFFF;

struct Descriptor {
  alignas(64) Word holder;
  std::atomic<std::uint64_t> bytes;
  std::atomic<std::uint64_t> sequence;
};
static_assert(sizeof(Descriptor) == 64);

struct Geometry {
  std::uint32_t producers = 1;
  std::uint32_t consumers = 1;
  std::uint32_t slots_per_lane = 0;
  bool page_aligned = false;
  std::uint64_t slot_bytes = 0;
  // What follows from these.
  std::uint32_t page_bytes = 0;
  std::uint32_t slots = 0;         // of each producer
  std::uint32_t ring_entries = 0;  // a power of two
  std::uint64_t slot_stride = 0;
  std::uint64_t lanes_at = 0;
  std::uint64_t lane_bytes = 0;
  std::uint64_t descriptors_at = 0;
  std::uint64_t slots_at = 0;
  std::uint64_t total_bytes = 0;

  /// ErrorKind::Invalid: cannot be, with the limit that is passed.
  static Result<Geometry> plan(std::uint32_t producers, std::uint32_t consumers,
                               std::uint32_t slots_per_lane, std::uint64_t slot_bytes,
                               bool page_aligned);
};

/// The parts of a mapped channel.  Indices are the caller's, and in range.
class Layout {
 public:
  Layout() = default;
  Layout(std::byte* base, const Geometry& geometry) : base_(base), geometry_(geometry) {}
  /// Writes the header of new memory, all zero.
  static Layout create(std::byte* base, const Geometry& geometry, std::string_view name);
  /// ErrorKind::Corrupt: not a channel, of another version, or larger than `size`.
  static Result<Layout> read(std::byte* base, std::uint64_t size);

  const Geometry& geometry() const { return geometry_; }
  std::string name() const;

  ChannelHeader& header() const { return *at<ChannelHeader>(0); }
  std::uint64_t producer_at(std::uint32_t p) const {
    return std::uint64_t{1 + p} * geometry_.page_bytes;
  }
  std::uint64_t consumer_at(std::uint32_t c) const { return producer_at(geometry_.producers + c); }
  Place& producer(std::uint32_t p) const { return *at<Place>(producer_at(p)); }
  Place& consumer(std::uint32_t c) const { return *at<Place>(consumer_at(c)); }
  Word& live(std::uint64_t place_at) const {
    return *at<Word>(place_at + geometry_.page_bytes - 8);
  }
  Word& producer_live(std::uint32_t p) const { return live(producer_at(p)); }
  Word& consumer_live(std::uint32_t c) const { return live(consumer_at(c)); }

  Lane& lane(std::uint32_t p, std::uint32_t c) const { return *at<Lane>(lane_at(p, c)); }
  Ring ready(std::uint32_t p, std::uint32_t c) const;
  Ring free(std::uint32_t p, std::uint32_t c) const;
  Descriptor& descriptor(std::uint32_t p, std::uint32_t slot) const {
    return *at<Descriptor>(geometry_.descriptors_at + number(p, slot) * sizeof(Descriptor));
  }
  std::byte* payload(std::uint32_t p, std::uint32_t slot) const {
    return base_ + geometry_.slots_at + number(p, slot) * geometry_.slot_stride;
  }

  Owner producer_owner(std::uint32_t p) const { return Owner::unpack(producer(p).owner.load()); }
  Owner consumer_owner(std::uint32_t c) const { return Owner::unpack(consumer(c).owner.load()); }

 private:
  template <typename T>
  T* at(std::uint64_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }
  std::uint64_t lane_at(std::uint32_t p, std::uint32_t c) const {
    return geometry_.lanes_at + (std::uint64_t{p} * geometry_.consumers + c) * geometry_.lane_bytes;
  }
  std::uint64_t number(std::uint32_t p, std::uint32_t slot) const {
    return std::uint64_t{p} * geometry_.slots + slot;
  }

  std::byte* base_ = nullptr;
  Geometry geometry_ = {};
};

}  // namespace pergpu::share
