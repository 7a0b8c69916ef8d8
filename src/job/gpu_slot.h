// Numbers of GPU lanes.  That of a GPU is the driver's; that of an instance, a part into which a
// GPU is cut (MIG), is made of its GPU's and its own there.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace pergpu {

/// A GPU, or an instance on one.
struct GpuPlace {
  int gpu = 0;        // the driver's number
  int instance = -1;  // the driver's number on that GPU; -1: all of the GPU
  auto operator<=>(const GpuPlace&) const = default;
};
/// "3", "0:2": instance 2 of GPU 0.
std::string to_string(GpuPlace place);

/// LaneId::slot of Pool::Gpu.  REQUIRES: gpu < 10,000, instance < 10,000.
std::int32_t slot_of(GpuPlace place);
GpuPlace place_of(std::int32_t slot);
bool is_instance(std::int32_t slot);

}  // namespace pergpu
