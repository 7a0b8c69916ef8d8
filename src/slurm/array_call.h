// From what is handed over to what Slurm is asked for, and back: what the end of a task means for
// jobs that it has not reported.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "job/classify.h"
#include "slurm/handover_owner.h"
#include "slurm/handover_plan.h"
#include "slurm/slurm_client.h"
#include "slurm/slurm_queue.h"
#include "slurm/slurm_script.h"

namespace pergpu {

struct ArrayCall {
  slurm::ArrayRequest request = {};
  std::vector<std::string> environment = {};  // NAME=value
  std::int64_t umask = 022;
  std::int64_t last_start_ms = 0;  // of the handover
  std::string owner = {};          // who will look after it
};

/// Pure.  `environment`: as captured with the sweep; `pergpu`: the program as the nodes find it.
ArrayCall array_call(const Sweep& sweep, const ArrayPlan& plan, const std::string& folder,
                     const std::string& pergpu, const std::string& environment);

/// Makes the folder with the handover and asks Slurm; for an errand, it blocks.  Returns Slurm's
/// number of the array.  Busy: another coordinator has the sweep (its name is the message), and
/// Slurm was not asked; Invalid: refused for good; Full, Unavailable: surely not taken; else it may
/// have been.
Result<std::int64_t> send_array(slurm::Client& client, const ArrayCall& call,
                                const std::string& handover);

/// Whether what send_array() fails with says that Slurm has nothing of it.
bool surely_not_taken(ErrorKind kind);

/// Writes what others read of a handover: its folder, whose it is, what it is.  Blocks.
Result<void> make_handover(const std::string& folder, const std::string& owner,
                           const std::string& handover, std::int64_t umask);

/// Of a handover that was surely not taken: it is not continued, and nothing of it is left.
/// What cannot be removed is closed.  Blocks.
void take_back(const std::string& folder, std::int64_t umask);

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
/// The same of a step in an allocation, which Slurm forgets at once.
TaskEnd step_end(const std::string& name, const std::string& output);

/// Names of files beside the records of a handover.
inline constexpr char kSubmitted[] = "submitted";
inline constexpr char kWithdrawn[] = "withdrawn";
inline constexpr char kClosed[] = "closed";
inline constexpr char kScript[] = "script.sh";  // for people: sbatch gets the text

/// Which tasks of a handover are closed, by the names of the files in its folder.
struct ClosedTasks {
  bool all = false;
  std::set<std::int32_t> some = {};
  bool has(std::int32_t task) const { return all || some.contains(task); }
};
ClosedTasks closed_tasks(const std::vector<std::string>& names);
/// Its name where not all are.
std::string closed_name(std::int32_t task);

}  // namespace pergpu
