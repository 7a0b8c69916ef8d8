// `gpus`: the devices of the machine, who uses them, and the lanes that are no GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/snapshot.h"
#include "view/text/style.h"

namespace pergpu::view {

struct Devices {
  std::vector<GpuSnapshot> gpus = {};
  std::vector<LaneSnapshot> lanes = {};
  std::string trouble = {};    // why GPUs cannot be seen; "" if they can
  std::int64_t cpu_lanes = 0;  // 0: not known
};
std::string gpus_table(const Devices& devices, const Style& style);

/// "alice/python 21.3 GiB", "job 17", "pid 4711 (unknown holder)".
std::string holder_text(const GpuHolder& holder);

}  // namespace pergpu::view
