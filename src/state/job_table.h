// Jobs by their numbers, in blocks: those of sweeps that are not in memory take no room.
#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "ids.h"
#include "job/job.h"
#include "store/store.h"

namespace pergpu {

class JobTable {
 public:
  struct Entry {
    Job job = {};  // job.id is 0: there is none
    JobIdentity identity = {};
  };

  /// Null: there is none.  A job stays where it is as long as the table lives.
  Entry* find(JobId id) {
    if (id.value < 1) return nullptr;
    const auto [block, place] = where(id);
    if (block >= blocks_.size() || blocks_[block] == nullptr) return nullptr;
    Entry& entry = (*blocks_[block])[place];
    return entry.job.id ? &entry : nullptr;
  }
  const Entry* find(JobId id) const { return const_cast<JobTable*>(this)->find(id); }

  /// REQUIRES: id.value >= 1, and there is no such job.
  Entry& insert(JobId id) {
    const auto [block, place] = where(id);
    if (block >= blocks_.size()) blocks_.resize(block + 1);
    if (blocks_[block] == nullptr) blocks_[block] = std::make_unique<Block>();
    Entry& entry = (*blocks_[block])[place];
    entry.job.id = id;
    ++size_;
    return entry;
  }

  /// Takes the jobs of another table.  REQUIRES: none of them is in this one.
  void merge(JobTable&& other) {
    if (other.blocks_.size() > blocks_.size()) blocks_.resize(other.blocks_.size());
    for (std::size_t i = 0; i < other.blocks_.size(); ++i) {
      if (other.blocks_[i] == nullptr) continue;
      if (blocks_[i] == nullptr) {
        blocks_[i] = std::move(other.blocks_[i]);
        continue;
      }
      for (std::size_t place = 0; place < kBlock; ++place) {
        Entry& entry = (*other.blocks_[i])[place];
        if (entry.job.id) (*blocks_[i])[place] = std::move(entry);
      }
    }
    size_ += std::exchange(other.size_, 0);
    other.blocks_.clear();
  }

  std::size_t size() const { return size_; }

  /// Jobs in ascending order.
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = Job;
    using difference_type = std::ptrdiff_t;
    using pointer = const Job*;
    using reference = const Job&;

    Iterator() = default;
    Iterator(const JobTable* table, std::size_t place) : table_(table), place_(place) { skip(); }
    reference operator*() const { return (*table_->blocks_[place_ / kBlock])[place_ % kBlock].job; }
    pointer operator->() const { return &**this; }
    Iterator& operator++() {
      ++place_;
      skip();
      return *this;
    }
    Iterator operator++(int) { return std::exchange(*this, ++Iterator(*this)); }
    bool operator==(const Iterator& other) const { return place_ == other.place_; }

   private:
    void skip() {
      const std::size_t end = table_->blocks_.size() * kBlock;
      while (place_ < end) {
        const Block* block = table_->blocks_[place_ / kBlock].get();
        if (block != nullptr && (*block)[place_ % kBlock].job.id) return;
        place_ = block == nullptr ? (place_ / kBlock + 1) * kBlock : place_ + 1;
      }
    }

    const JobTable* table_ = nullptr;
    std::size_t place_ = 0;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, blocks_.size() * kBlock}; }

 private:
  static constexpr std::size_t kBlock = 256;
  using Block = std::array<Entry, kBlock>;
  static std::pair<std::size_t, std::size_t> where(JobId id) {
    const auto place = static_cast<std::size_t>(id.value - 1);
    return {place / kBlock, place % kBlock};
  }

  std::vector<std::unique_ptr<Block>> blocks_;
  std::size_t size_ = 0;
};

}  // namespace pergpu
