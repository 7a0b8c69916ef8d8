// Open addressing, linear probing.  The hash lies beside the number, so that growing reads no run.
#include "state/run.h"

#include <xxhash.h>

#include <utility>

namespace pergpu {
namespace {

constexpr std::size_t kLeastSlots = 16;

std::uint32_t hash_of(std::string_view params) {
  return static_cast<std::uint32_t>(XXH3_64bits(params.data(), params.size()));
}

}  // namespace

Run::Run(std::string_view folder, std::string_view params, std::string_view texts, bool is_listed)
    : listed(is_listed),
      json_at_(static_cast<std::uint32_t>(folder.size())),
      texts_at_(static_cast<std::uint32_t>(folder.size() + params.size())) {
  words_.reserve(folder.size() + params.size() + texts.size());
  words_ += folder;
  words_ += params;
  words_ += texts;
}

void RunIndex::add(const std::vector<Run>& runs, std::int32_t number) {
  if (4 * (used_ + 1) > 3 * slots_.size()) grow();
  const std::string_view params = runs[static_cast<std::size_t>(number)].json();
  const std::uint32_t hash = hash_of(params);
  Slot& slot = slots_[place_of(runs, hash, params)];
  if (slot.number >= 0) return;
  slot = {hash, number};
  ++used_;
}

std::optional<std::int32_t> RunIndex::find(const std::vector<Run>& runs,
                                           std::string_view params) const {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[place_of(runs, hash_of(params), params)];
  if (slot.number < 0) return std::nullopt;
  return slot.number;
}

std::size_t RunIndex::place_of(const std::vector<Run>& runs, std::uint32_t hash,
                               std::string_view params) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t place = hash & mask;
  while (true) {
    const Slot& slot = slots_[place];
    if (slot.number < 0) return place;
    if (slot.hash == hash && runs[static_cast<std::size_t>(slot.number)].json() == params) {
      return place;
    }
    place = (place + 1) & mask;
  }
}

void RunIndex::grow() {
  std::vector<Slot> before(slots_.empty() ? kLeastSlots : 2 * slots_.size());
  before.swap(slots_);
  const std::size_t mask = slots_.size() - 1;
  for (const Slot& slot : before) {
    if (slot.number < 0) continue;
    std::size_t place = slot.hash & mask;
    while (slots_[place].number >= 0) place = (place + 1) & mask;
    slots_[place] = slot;
  }
}

}  // namespace pergpu
