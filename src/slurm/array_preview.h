// The scripts that a submit would give to a cluster, for `--dry-run`: the same plan of arrays as
// that of the submit, on a world of the sweep alone.  Pure; the cluster is not asked.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "api/snapshot.h"
#include "job/state.h"
#include "result.h"
#include "spec/sweep/sweep.h"

namespace pergpu {

/// The default of Slurm (slurm.conf(5), MaxArraySize).
inline constexpr std::int32_t kUsualArraySize = 1001;

/// In the order in which they would be submitted.  `becomes`: of the job of a step and a row of the
/// file, both counted from 0 (the row of a once-step is 0); what is not queued is not handed over.
/// `pergpu`: the program, as the nodes find it.  Invalid: the sweep cannot be submitted.
Result<std::vector<ArraySnapshot>> preview_arrays(
    const SweepSpec& file, const SubmitContext& context,
    const std::function<JobState(std::size_t step, std::size_t row)>& becomes,
    std::int32_t array_size, const std::string& pergpu);

}  // namespace pergpu
