// What a selector that a user is typing may become: for the completion of shells.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "state/world.h"

namespace pergpu {

struct SelectorWord {
  std::string word = {};
  std::string meaning = {};  // a few words for people; may be empty
};

/// At most `most` words that begin with `begin`: sweeps, then (behind a /) their runs, then the
/// steps of those; numbers of jobs.  Runs and steps are those of sweeps in memory.
std::vector<SelectorWord> selector_words(const World& world, const std::string& begin,
                                         std::size_t most);

}  // namespace pergpu
