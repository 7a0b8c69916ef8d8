// From what is handed over to what Slurm is asked for, and back: what the end of a task means for
// jobs that it has not told of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/handover_plan.h"
#include "job/classify.h"
#include "run/slurm_client.h"
#include "run/slurm_queue.h"
#include "run/slurm_script.h"

namespace pergpu {

struct ArrayCall {
  slurm::ArrayRequest request = {};
  std::vector<std::string> environment = {};  // NAME=value
  std::int64_t umask = 022;
  std::int64_t last_start_ms = 0;  // of the handover
};

/// Pure.  `environment`: as captured with the sweep; `pergpu`: the program as the nodes find it.
ArrayCall array_call(const Sweep& sweep, const ArrayPlan& plan, const std::string& folder,
                     const std::string& pergpu, const std::string& environment);

/// Makes the folder with the handover and asks Slurm; for an errand, it blocks.  Returns Slurm's
/// number of the array.  Invalid: refused for good; Unavailable: surely not taken; else it may have
/// been.
Result<std::int64_t> send_array(slurm::Client& client, const ArrayCall& call,
                                const std::string& handover);

/// What the end of a task means for jobs that were live (`evidence`) or queued in it.
struct TaskEnd {
  std::string words = {};
  Evidence evidence = {};
  bool cancels = false;  // who waited in it is cancelled, too
  bool holds = false;    // … is held: the task has failed before it could start it
};
/// `seen`: by the last look at the queue; nullopt: the cluster does not know of it any more.
TaskEnd task_end(const std::optional<slurm::QueueRecord>& seen, const std::string& name,
                 const std::string& output);

/// Names of files beside the records of a handover.
inline constexpr char kSubmitted[] = "submitted";
inline constexpr char kWithdrawn[] = "withdrawn";
inline constexpr char kClosed[] = "closed";
inline constexpr char kScript[] = "script.sh";

}  // namespace pergpu
