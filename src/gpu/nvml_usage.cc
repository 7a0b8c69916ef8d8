// What a GPU is doing at this moment, but for its memory and its processes.
#include "gpu/nvml.h"

namespace pergpu::gpu {
namespace {

constexpr int kGpuSensor = 0;
constexpr int kMultiprocessors = 1;

}  // namespace

NvmlAnswer<unsigned> Nvml::power_mw(NvmlDevice device) {
  NvmlAnswer<unsigned> answer;
  if (call_.power != nullptr) answer.code = call_.power(device, &answer.value);
  return answer;
}

NvmlAnswer<unsigned> Nvml::temperature_c(NvmlDevice device) {
  NvmlAnswer<unsigned> answer;
  if (call_.temperature != nullptr) {
    answer.code = call_.temperature(device, kGpuSensor, &answer.value);
  }
  return answer;
}

NvmlAnswer<unsigned> Nvml::clock_mhz(NvmlDevice device) {
  NvmlAnswer<unsigned> answer;
  if (call_.clock != nullptr) answer.code = call_.clock(device, kMultiprocessors, &answer.value);
  return answer;
}

NvmlAnswer<std::uint32_t> Nvml::throttle(NvmlDevice device) {
  unsigned long long reasons = 0;
  if (call_.throttle == nullptr) return {};
  const int code = call_.throttle(device, &reasons);
  return {code, static_cast<std::uint32_t>(reasons)};
}

}  // namespace pergpu::gpu
