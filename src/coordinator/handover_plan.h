// Which jobs go to a cluster next, in one array, and behind what they wait there.  Pure.
//
// The tasks of an array have the places of their runs, so that the array of a later step can wait
// task by task for that of an earlier one (aftercorr).  What a cluster cannot be told it is not
// given: a job whose need is neither done nor handed over stays here.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/world.h"
#include "job/queue.h"
#include "store/handover.h"

namespace pergpu {

/// Where a job is that was handed over and has not been given back.
struct HandedPlace {
  std::int64_t array = 0;  // the cluster's number of it
  std::int32_t task = 0;
  std::int32_t jobs_each = 1;
  JobId handed = {};  // the job's number there; 0: the one that it has here
  bool operator==(const HandedPlace&) const = default;
};

struct ClusterSite {
  std::int32_t array_size = 1001;  // an index of an array is less
  std::function<std::optional<HandedPlace>(JobId)> place;
  std::function<std::vector<std::int64_t>(StepKey)> arrays;  // of the step, that have not ended
};

struct ArrayPlan {
  StepKey step = {};
  Growths growths = {};
  store::Handover handover = {};  // without `key` and `from`
  std::vector<int> tasks = {};    // ascending
  int most_at_once = 0;           // 0: no limit
  std::string dependency = {};    // "aftercorr:12,afterok:14:15"; empty: none
};

/// The first array of `wanted`, queued jobs of the sweep; nullopt: none of them can be handed over
/// now.
std::optional<ArrayPlan> next_array(const World& world, const Sweep& sweep,
                                    const std::vector<JobId>& wanted, const ClusterSite& site);

/// Those of `wanted` whose needs are met, by priority, then as steps need each other, then by their
/// numbers.
std::vector<JobId> ready_jobs(const World& world, const Sweep& sweep,
                              const std::vector<JobId>& wanted);
/// The handover of one of them by itself, as task 0 on this node.
ArrayPlan plan_of_one(const World& world, const Sweep& sweep, JobId job, const std::string& node);

}  // namespace pergpu
