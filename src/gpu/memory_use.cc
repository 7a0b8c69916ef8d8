// What the driver says of each process comes first; the sum of the GPU is the way out.
#include "gpu/memory_use.h"

#include <algorithm>

#include "gpu/foreign.h"

namespace pergpu::gpu {
namespace {

/// nullopt: the driver does not say it of all of them.
std::optional<std::uint64_t> by_process(const GpuReading& reading, const MemoryQuestion& question) {
  std::uint64_t sum = 0;
  for (const GpuProcess& process : reading.processes) {
    if (!process.matched) return std::nullopt;
    if (!question.ours(process)) continue;
    if (!process.memory_bytes) return std::nullopt;
    sum += *process.memory_bytes;
  }
  return sum;
}

}  // namespace

std::optional<std::uint64_t> memory_in_use(const GpuLook& look, const MemoryQuestion& question) {
  if (!look.complete) return std::nullopt;
  const auto reading = std::find_if(look.gpus.begin(), look.gpus.end(),
                                    [&](const GpuReading& r) { return r.uuid == question.gpu; });
  if (reading == look.gpus.end() || reading->health != GpuHealth::Ok) return std::nullopt;
  if (!look.in_container) {
    if (const auto sum = by_process(*reading, question)) return sum;
  }
  if (question.has_outsiders) return std::nullopt;
  const std::uint64_t idle = question.idle_bytes(question.gpu);
  const std::uint64_t used = settled_bytes(*reading);
  return used > idle ? used - idle : 0;
}

}  // namespace pergpu::gpu
