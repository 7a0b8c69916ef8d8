// How two GPUs reach each other.  Numbers are those of nvml.h: nvmlGpuP2PCapsIndex_t,
// nvmlGpuP2PStatus_t, nvmlGpuTopologyLevel_t.
#include "gpu/nvml.h"

namespace pergpu::gpu {
namespace {

constexpr int kNvLinkCapability = 2;
constexpr int kStatusOk = 0;

}  // namespace

NvmlAnswer<bool> Nvml::has_nvlink(NvmlDevice a, NvmlDevice b) {
  if (call_.p2p_status == nullptr) return {};
  int status = kStatusOk + 1;
  const int code = call_.p2p_status(a, b, kNvLinkCapability, &status);
  return {code, status == kStatusOk};
}

NvmlAnswer<int> Nvml::common_ancestor(NvmlDevice a, NvmlDevice b) {
  NvmlAnswer<int> answer;
  if (call_.common_ancestor != nullptr) answer.code = call_.common_ancestor(a, b, &answer.value);
  return answer;
}

}  // namespace pergpu::gpu
