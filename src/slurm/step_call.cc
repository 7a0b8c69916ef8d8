// A handover of one job, whose only task has the index 0.
#include "slurm/step_call.h"

#include <fmt/format.h>

#include "os/fs/file.h"
#include "run/environment.h"
#include "slurm/node_room.h"
#include "store/result_file.h"

namespace pergpu {

slurm::StepCall step_call(const Sweep& sweep, const ArrayPlan& plan,
                          const slurm::AllocationNode& node, const std::string& folder,
                          const std::string& pergpu, const std::string& environment) {
  const StepSpec& step = sweep.steps[static_cast<std::size_t>(plan.step.step)].spec;
  const NodeShare share = share_of(step, node);
  return {.name = plan.handover.key,
          .node = node.name,
          .gpus = share.gpus,
          .gpu = step.gpu,
          .cpus = share.cpus,
          .cwd = sweep.spec.folder,
          .output = folder + "/task-0.txt",
          .command = {pergpu, "slurm-task", folder, "--step"},
          .environment = entries_of(environment),
          .umask = static_cast<std::uint32_t>(sweep.context.umask)};
}

Result<std::shared_ptr<os::Spawned>> start_step(slurm::Steps& steps, const slurm::StepCall& call,
                                                const std::string& folder, const std::string& owner,
                                                const std::string& handover) {
  Result<void> ready = make_handover(folder, owner, handover, call.umask);
  if (!ready) ready = Error{ErrorKind::Unavailable, 0, ready.error().message};
  if (ready) ready = check_claim(os::parent_of(folder), owner);
  // The list of steps shows that a step was not begun after all.
  const std::string number = steps.allocation() + "\n";
  const mode_t mode = handover_mode(call.umask);
  const bool is_ours = ready || ready.error().kind != ErrorKind::Busy;
  if (ready) ready = store::write_result_file(folder, kSubmitted, number, mode, true);
  Result<std::shared_ptr<os::Spawned>> started =
      ready ? steps.start(call) : Result<std::shared_ptr<os::Spawned>>(ready.error());
  if (started) return started;
  take_back(folder, call.umask);
  return Error{is_ours ? ErrorKind::Unavailable : ErrorKind::Busy, 0, started.error().message};
}

}  // namespace pergpu
