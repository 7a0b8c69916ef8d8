// Which jobs go to a cluster next, in one array, and behind what they wait there.  Pure.
//
// The tasks of an array have the places of their runs, so that the array of a later step can wait
// task by task for that of an earlier one (aftercorr).  What a cluster cannot express it is not
// given: a job whose need is neither done nor handed over stays here, and so does one whose folder
// may be worked in by an older version of it.  What has been replaced is not handed over any more.
//
// Slurm does not know for long what became of a job, and takes a dependency on a forgotten one for
// met (tried with 22.05).  So each job that is handed over before its needs are done has them
// looked at again on its node.  Where that were very many looks, at a barrier between thousands of
// jobs and thousands, the jobs stay here until few are left to look at.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "job/schedule/queue.h"
#include "state/world.h"
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
  int most_tasks = 0;              // of an array; 0: no limit but that
  std::function<std::optional<HandedPlace>(JobId)> place;
  std::function<std::vector<std::int64_t>(StepKey)> arrays;  // of the step, that have not ended
  /// It was handed over and not given back, whether or not its place is known; empty: none was.
  std::function<bool(JobId)> is_handed = {};
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
/// numbers.  `is_handed`: as of ClusterSite.
std::vector<JobId> ready_jobs(const World& world, const Sweep& sweep,
                              const std::vector<JobId>& wanted,
                              std::function<bool(JobId)> is_handed = {});
/// The handover of one of them by itself, as task 0 on this node.
ArrayPlan plan_of_one(const World& world, const Sweep& sweep, JobId id, const std::string& node);

}  // namespace pergpu
