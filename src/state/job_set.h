// A set of jobs, one bit for each there is: the few open ones of millions are found at once.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ids.h"

namespace pergpu {

class JobSet {
 public:
  /// True when that changed something.  REQUIRES: id.value >= 1.
  bool put(JobId id, bool is_in) {
    const auto place = static_cast<std::size_t>(id.value - 1);
    if (place / kBits >= words_.size()) words_.resize(place / kBits + 1);
    const std::uint64_t bit = std::uint64_t{1} << (place % kBits);
    std::uint64_t& word = words_[place / kBits];
    const std::uint64_t before = std::exchange(word, is_in ? word | bit : word & ~bit);
    return word != before;
  }

  /// In ascending order.  `visit` may change the set; it need not see what it changed.
  template <typename Visit>
  void for_each(Visit visit) const {
    for_each_while([&visit](JobId id) {
      visit(id);
      return true;
    });
  }

  /// The same until `visit` returns false.
  template <typename Visit>
  void for_each_while(Visit visit) const {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      for (std::uint64_t rest = words_[i]; rest != 0; rest &= rest - 1) {
        const std::size_t place = i * kBits + static_cast<std::size_t>(std::countr_zero(rest));
        if (!visit(JobId{static_cast<std::int64_t>(place) + 1})) return;
      }
    }
  }

 private:
  static constexpr std::size_t kBits = 64;
  std::vector<std::uint64_t> words_;
};

}  // namespace pergpu
