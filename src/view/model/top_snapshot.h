// What is known from a stream of everything (api/snapshot.h), and how its events change it.
// `top`, /metrics and the web page share it.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/snapshot.h"
#include "view/model/series.h"

namespace pergpu::view {

/// What a GPU does, where that is known.
struct GpuLoad {
  std::optional<double> utilization = std::nullopt;  // 0 to 1
  std::optional<double> power_w = std::nullopt;
};

/// All that is known (view/model/top_snapshot.cc fills it).
struct TopSnapshot {
  bool known = false;                               // a first snapshot has come
  std::int64_t now_ns = 0;                          // wall clock
  std::string trouble = {};                         // what keeps us from getting it; "": nothing
  std::map<std::int64_t, JobSnapshot> jobs = {};    // by id; of a long queue a window
  std::map<std::string, std::int64_t> counts = {};  // by state, those not in `jobs` too
  std::vector<SweepSummary> sweeps = {};
  std::vector<GpuSnapshot> gpus = {};
  std::vector<LaneSnapshot> gpu_lanes = {};
  std::string gpu_trouble = {};  // why GPUs cannot be seen
  std::int64_t cpu_lanes = 0;
  std::map<std::string, GpuLoad> loads = {};  // by UUID
  // Kept by the view itself, from what it saw:
  Series busy = {};                            // share of the lanes that have a job
  std::map<std::string, Series> loads_so_far;  // by UUID: utilization
  // Of the jobs' files:
  std::map<std::int64_t, std::string> newest = {};  // by job: metrics or the last line of its log
  std::int64_t log_of = 0;                          // whose log
  std::string log = {};                             // its end, as the job wrote it
};

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
