// How the events of a stream of everything (coordinator/snapshot.h) become what `top` shows.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "view/top.h"

namespace pergpu::view {

/// Takes one event.  False: it belongs to no stream of everything, as an older coordinator sends.
bool take_event(TopSnapshot& snapshot, const nlohmann::json& event);

/// Adds what is known now to the charts.  To be called each second, with snapshot.now_ns set.
void sample(TopSnapshot& snapshot);

/// A lane and who is on it.
struct TopLane {
  std::string name = {};
  std::string uuid = {};  // GPUs only
  std::string state = {};
  std::string why = {};
  const JobSnapshot* job = nullptr;  // of the snapshot; null: not in it
};
/// GPUs, then the own lanes of sweeps, then the machine's CPU lanes that are in use.
std::vector<TopLane> lanes_of(const TopSnapshot& snapshot);

struct LanesInUse {
  std::int64_t used = 0;
  std::int64_t all = 0;
};
LanesInUse lanes_in_use(const TopSnapshot& snapshot, const std::vector<TopLane>& lanes);

}  // namespace pergpu::view
