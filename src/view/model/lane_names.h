// Lanes and GPUs in one word, for tables.  Pure.
#pragma once

#include <string>
#include <vector>

#include "api/snapshot.h"

namespace pergpu::view {

/// "gpu0", "gpu0-3", "gpu0,2,5-7": names of one pool are shown by their numbers.
std::string lanes_text(const std::vector<std::string>& names);

/// As --devices takes it: "3", "0:2".
std::string number_of(const GpuSnapshot& gpu);

}  // namespace pergpu::view
