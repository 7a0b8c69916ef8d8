// `gpus`: the devices of the machine, who uses them, and the lanes that are no GPU.
#pragma once

#include <string>
#include <vector>

#include "coordinator/snapshot.h"
#include "view/style.h"

namespace pergpu::view {

std::string gpus_table(const std::vector<GpuSnapshot>& gpus, const std::vector<LaneSnapshot>& lanes,
                       const Style& style);

/// "alice/python 21.3 GiB", "job 17", "pid 4711 (unknown holder)".
std::string holder_text(const GpuHolder& holder);

}  // namespace pergpu::view
