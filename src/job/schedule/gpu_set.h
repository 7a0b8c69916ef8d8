// Which GPUs a job with several gets: those that reach each other fastest.  Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "job/schedule/schedule.h"

namespace pergpu {

/// How far apart two GPUs are, as GpuLane::distances has it; 0: not known.
int distance_between(const GpuLane& a, const GpuLane& b);

/// `count` of the candidates, in their order: those that are nearest to each other and to `fixed`,
/// which the job has already; of equally near ones those that are farthest from what is left of the
/// candidates, so that it stays near each other for the next one; else the first.  REQUIRES: count
/// <= candidates.size().
std::vector<const GpuLane*> nearest(const std::vector<const GpuLane*>& fixed,
                                    const std::vector<const GpuLane*>& candidates,
                                    std::size_t count);

}  // namespace pergpu
