// From a look at the devices to lanes: which GPUs a user may use, in which order, and which share
// of the cores a job of each has.  Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/inventory.h"
#include "job/event.h"
#include "result.h"

namespace pergpu::gpu {

/// A GPU, or an instance of one that is cut, as a lane.
struct GpuLane {
  LaneId id = {};  // Pool::Gpu, slot: job/gpu_slot.h
  std::string uuid = {};
  std::string name = {};
  std::string pci = {};
  std::uint64_t total_bytes = 0;
  int numa_node = -1;
  std::vector<int> near_cpus = {};
};

/// All GPUs and instances with a known UUID, in their order; a lost one keeps its lane (its verdict
/// closes it).
std::vector<GpuLane> gpu_lanes(const GpuLook& look);

/// Which GPUs a list like "0,2:1" or "GPU-5a2b,MIG-77" names, as UUIDs in the order of the list.
/// Entries are NVML indices (PCI order), which stand for all instances of a GPU that is cut; those
/// with the number of an instance; or prefixes of UUIDs that fit exactly one.  As in CUDA,
/// an empty list, "-1" and "NoDevFiles" end the list.  Anything else that names no GPU, or names
/// one twice, is an error that lists what there is.  `source` is named in errors: "--devices".
Result<std::vector<std::string>> select_gpus(const GpuLook& look, std::string_view list,
                                             std::string_view source);

/// The CPU budget of a job that declares none: max(1, floor(cores / lanes)).
int default_cpu_budget(int cores, int lanes);

}  // namespace pergpu::gpu
