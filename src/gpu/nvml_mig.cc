// What NVML reports of the instances that a GPU is cut into (MIG).  A handle of one serves most
// calls that a GPU's does.
#include "gpu/nvml.h"

namespace pergpu::gpu {

NvmlAnswer<bool> Nvml::is_cut(NvmlDevice gpu) {
  if (call_.mig_mode == nullptr) return {};
  unsigned now = 0;
  unsigned pending = 0;
  const int code = call_.mig_mode(gpu, &now, &pending);
  return {code, now != 0};
}

NvmlAnswer<unsigned> Nvml::most_instances(NvmlDevice gpu) {
  NvmlAnswer<unsigned> answer;
  if (call_.most_instances != nullptr) answer.code = call_.most_instances(gpu, &answer.value);
  return answer;
}

NvmlAnswer<NvmlDevice> Nvml::instance(NvmlDevice gpu, unsigned number) {
  NvmlAnswer<NvmlDevice> answer;
  if (call_.instance != nullptr) answer.code = call_.instance(gpu, number, &answer.value);
  return answer;
}

NvmlAnswer<unsigned> Nvml::gpu_instance(NvmlDevice instance) {
  NvmlAnswer<unsigned> answer;
  if (call_.gpu_instance != nullptr) answer.code = call_.gpu_instance(instance, &answer.value);
  return answer;
}

}  // namespace pergpu::gpu
