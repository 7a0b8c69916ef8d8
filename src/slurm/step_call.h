// From a job that is handed over to the srun that starts it in an allocation that is there already.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "slurm/array_call.h"
#include "slurm/handover_plan.h"
#include "slurm/slurm_steps.h"

namespace pergpu {

/// Pure.  `environment`: as captured with the sweep; `pergpu`: the program as the nodes find it.
slurm::StepCall step_call(const Sweep& sweep, const ArrayPlan& plan,
                          const slurm::AllocationNode& node, const std::string& folder,
                          const std::string& pergpu, const std::string& environment);

/// Makes the folder with the handover and starts srun, our child; for an errand, it blocks.
/// Nothing was started: Busy: another coordinator has the sweep (its name is the message);
/// Unavailable: for another reason.
Result<std::shared_ptr<os::Spawned>> start_step(slurm::Steps& steps, const slurm::StepCall& call,
                                                const std::string& folder, const std::string& owner,
                                                const std::string& handover);

}  // namespace pergpu
