// What is to become of a sweep that is new here and in whose folder results lie already: it was
// moved, it is a copy, or others work there.  Pure.
#pragma once

#include <string>
#include <vector>

#include "run/found_results.h"
#include "state/world.h"

namespace pergpu {

struct FoundVerdict {
  SweepId moved = {};     // it is this known sweep, whose results lie here now
  std::string why = {};   // it is refused
  std::string note = {};  // it is taken, and this is to be said
};

/// Where a known sweep has its results, and whether that is still so.
struct KnownRoot {
  SweepId sweep = {};
  bool is_there = true;  // its folder is
};

/// The sweeps of this home that the results name, archived or not, in the order of their numbers.
std::vector<SweepId> sweeps_of(const World& world, const std::string& home,
                               const std::vector<FoundResult>& results);

/// REQUIRES: the sweeps among `roots` are in memory.  `is_whole`: the results are all that lie
/// there.
FoundVerdict judge_results(const World& world, const std::vector<FoundResult>& results,
                           const std::vector<KnownRoot>& roots, const std::string& folder,
                           const std::string& name, bool is_whole = true);

}  // namespace pergpu
