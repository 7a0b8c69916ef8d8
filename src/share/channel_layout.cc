// Offsets are planned in one function, both to create a channel and to adopt one: what a
// header claims is planned again and must come out the same.
#include "share/channel_layout.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "number.h"

namespace pergpu::share {
namespace {

constexpr std::uint64_t kMostChannelBytes = std::uint64_t{1} << 46;

}  // namespace

Error invalid_channel(std::string message) {
  return Error{ErrorKind::Invalid, EINVAL, "channel: " + std::move(message)};
}

Result<Geometry> Geometry::plan(std::uint32_t producers, std::uint32_t consumers,
                                std::uint32_t slots_per_lane, std::uint64_t slot_bytes,
                                bool page_aligned) {
  for (std::uint32_t ends : {producers, consumers}) {
    if (ends < 1 || ends > kMostEnds) {
      return invalid_channel(std::to_string(producers) + " producers and " +
                             std::to_string(consumers) + " consumers: 1 to " +
                             std::to_string(kMostEnds) +
                             " of each, because one kernel wait can watch at most " +
                             std::to_string(kMostWatched) + " words");
    }
  }
  if (slots_per_lane < 1 || std::uint64_t{slots_per_lane} * consumers > kMostSlots) {
    return invalid_channel(std::to_string(slots_per_lane) + " slots for each of " +
                           std::to_string(consumers) + " consumers: at least 1, and " +
                           std::to_string(kMostSlots) + " in all");
  }
  if (slot_bytes < 1 || slot_bytes > kMostChannelBytes) {
    return invalid_channel("slots of " + std::to_string(slot_bytes) + " bytes: 1 to " +
                           std::to_string(kMostChannelBytes));
  }
  Geometry g;
  g.producers = producers;
  g.consumers = consumers;
  g.slots_per_lane = slots_per_lane;
  g.page_aligned = page_aligned;
  g.slot_bytes = slot_bytes;
  g.page_bytes = static_cast<std::uint32_t>(::sysconf(_SC_PAGESIZE));
  g.slots = slots_per_lane * consumers;
  g.ring_entries = std::bit_ceil(g.slots);
  g.slot_stride = round_up(slot_bytes, page_aligned ? g.page_bytes : 64);
  g.lanes_at = std::uint64_t{1} * g.page_bytes * (1 + producers + consumers);
  g.lane_bytes = round_up(sizeof(Lane) + 2 * sizeof(Word) * g.ring_entries, 64);
  g.descriptors_at = g.lanes_at + std::uint64_t{producers} * consumers * g.lane_bytes;
  g.slots_at = round_up(g.descriptors_at + std::uint64_t{producers} * g.slots * sizeof(Descriptor),
                        g.page_bytes);
  std::uint64_t count = std::uint64_t{producers} * g.slots;
  if (g.slot_stride > kMostChannelBytes / count) {
    return invalid_channel(std::to_string(count) + " slots of " + std::to_string(slot_bytes) +
                           " bytes: more than a machine's memory");
  }
  g.total_bytes = g.slots_at + count * g.slot_stride;
  return g;
}

Layout Layout::create(std::byte* base, const Geometry& geometry, std::string_view name) {
  Layout layout(base, geometry);
  ChannelHeader& header = layout.header();
  header.abi = kChannelAbi;
  header.page_bytes = geometry.page_bytes;
  header.producers = geometry.producers;
  header.consumers = geometry.consumers;
  header.slots_per_lane = geometry.slots_per_lane;
  header.page_aligned = geometry.page_aligned ? 1 : 0;
  header.slot_bytes = geometry.slot_bytes;
  header.total_bytes = geometry.total_bytes;
  std::memcpy(header.name, name.data(), std::min(name.size(), sizeof(header.name) - 1));
  header.magic = kChannelMagic;
  return layout;
}

Result<Layout> Layout::read(std::byte* base, std::uint64_t size) {
  auto corrupt = [](std::string message) {
    return Error{ErrorKind::Corrupt, 0, "the segment isn't a channel: " + std::move(message)};
  };
  if (size < sizeof(ChannelHeader)) return corrupt("only " + std::to_string(size) + " bytes");
  // Copied before it is checked: every process with the segment can change it in between.
  std::byte copy[offsetof(ChannelHeader, gate)];
  std::memcpy(copy, base, sizeof(copy));
  auto field = [&copy](std::size_t at, auto value) {
    std::memcpy(&value, copy + at, sizeof(value));
    return value;
  };
  auto word = [&field](std::size_t at) { return field(at, std::uint32_t{0}); };
  if (field(offsetof(ChannelHeader, magic), std::uint64_t{0}) != kChannelMagic) {
    return corrupt("wrong magic number");
  }
  if (std::uint32_t abi = word(offsetof(ChannelHeader, abi)); abi != kChannelAbi) {
    return corrupt("created by another version of pergpu (layout " + std::to_string(abi) +
                   ", this one supports " + std::to_string(kChannelAbi) + ")");
  }
  Result<Geometry> geometry = Geometry::plan(
      word(offsetof(ChannelHeader, producers)), word(offsetof(ChannelHeader, consumers)),
      word(offsetof(ChannelHeader, slots_per_lane)),
      field(offsetof(ChannelHeader, slot_bytes), std::uint64_t{0}),
      word(offsetof(ChannelHeader, page_aligned)) != 0);
  if (!geometry) return corrupt(geometry.error().message);
  if (word(offsetof(ChannelHeader, page_bytes)) != geometry->page_bytes ||
      field(offsetof(ChannelHeader, total_bytes), std::uint64_t{0}) != geometry->total_bytes ||
      geometry->total_bytes > size) {
    return corrupt("its size doesn't match its header");
  }
  return Layout(base, *geometry);
}

std::string Layout::name() const {
  char copy[sizeof(ChannelHeader::name)];
  std::memcpy(copy, header().name, sizeof(copy));
  return std::string(copy, ::strnlen(copy, sizeof(copy)));
}

Ring Layout::ready(std::uint32_t p, std::uint32_t c) const {
  return {.words = &lane(p, c).ready,
          .entries = at<Word>(lane_at(p, c) + sizeof(Lane)),
          .mask = geometry_.ring_entries - 1,
          .slots = geometry_.slots};
}

Ring Layout::free(std::uint32_t p, std::uint32_t c) const {
  Ring ring = ready(p, c);
  ring.words = &lane(p, c).free;
  ring.entries += geometry_.ring_entries;
  return ring;
}

}  // namespace pergpu::share
