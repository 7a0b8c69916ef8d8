// Programs started in an allocation that is there already: as steps, by srun.
//
// An srun lives as long as its step, and takes it along when it is killed, so each has its own
// session: a coordinator that dies leaves them alone, and the next one knows them by their name in
// the list of processes (those that still wait for room) and in Slurm's list of steps.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "os/process/spawn.h"
#include "result.h"
#include "slurm/slurm_allocation.h"
#include "slurm/slurm_client.h"
#include "slurm/slurm_queue.h"

namespace pergpu::slurm {

struct StepCall {
  std::string name = {};  // one word, unique: found again by it
  std::string node = {};
  int gpus = 0;
  std::string gpu = {};  // model
  int cpus = 1;
  std::string cwd = {};
  std::string output = {};                    // a file, appended to
  std::vector<std::string> command = {};      // as is
  std::vector<std::string> environment = {};  // NAME=value
  std::uint32_t umask = 022;
};

/// The words of srun for it.  Pure.
std::vector<std::string> step_argv(const StepCall& call, const std::string& allocation);
/// Every call blocks: for a thread that may wait.
class Steps {
 public:
  explicit Steps(std::string allocation) : allocation_(std::move(allocation)) {}

  const std::string& allocation() const { return allocation_; }
  /// As that of Client says; srun is looked for there, too.
  void search_also(std::string path) { client_.search_also(std::move(path)); }
  /// What the allocation has.
  Result<std::vector<AllocationNode>> nodes();
  /// Returns srun as soon as it runs, our child.
  Result<std::shared_ptr<os::Spawned>> start(const StepCall& call);
  /// What runs, and what waits for room: PENDING.
  Result<std::vector<QueueRecord>> list();

 private:
  std::string allocation_;
  Client client_;
};

}  // namespace pergpu::slurm
