// What is kept of some jobs, by their numbers, in blocks: no search, and no memory beside the value
// where many of them lie side by side.  A block without any takes none.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "ids.h"

namespace pergpu {

template <typename Value>
class JobMap {
 public:
  /// Null: there is none.
  const Value* find(JobId id) const {
    const auto [block, place] = where(id);
    if (block >= blocks_.size() || blocks_[block] == nullptr) return nullptr;
    return blocks_[block]->is_there[place] ? &blocks_[block]->values[place] : nullptr;
  }
  bool contains(JobId id) const { return find(id) != nullptr; }

  /// Replaces what was there.  REQUIRES: id.value >= 1.
  void put(JobId id, Value value) {
    const auto [block, place] = where(id);
    if (block >= blocks_.size()) blocks_.resize(block + 1);
    if (blocks_[block] == nullptr) blocks_[block] = std::make_unique<Block>();
    blocks_[block]->values[place] = std::move(value);
    if (!blocks_[block]->is_there[place]) ++size_;
    blocks_[block]->is_there[place] = true;
  }

  void erase(JobId id) {
    if (!contains(id)) return;
    const auto [block, place] = where(id);
    blocks_[block]->is_there[place] = false;
    if (blocks_[block]->is_there.none()) blocks_[block].reset();
    --size_;
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  /// In ascending order.  `visit(id, value)` must not change the map.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
      if (blocks_[block] == nullptr) continue;
      for (std::size_t place = 0; place < kBlock; ++place) {
        if (!blocks_[block]->is_there[place]) continue;
        visit(JobId{static_cast<std::int64_t>(block * kBlock + place) + 1},
              blocks_[block]->values[place]);
      }
    }
  }

 private:
  static constexpr std::size_t kBlock = 256;
  struct Block {
    std::array<Value, kBlock> values = {};
    std::bitset<kBlock> is_there = {};
  };
  static std::pair<std::size_t, std::size_t> where(JobId id) {
    const auto place = static_cast<std::size_t>(id.value - 1);
    return {place / kBlock, place % kBlock};
  }

  std::vector<std::unique_ptr<Block>> blocks_;
  std::size_t size_ = 0;
};

}  // namespace pergpu
