// Growth stops at what the machine has: more would wait forever instead of failing.
#include "job/growth.h"

#include <algorithm>
#include <cmath>

#include "job/job.h"

namespace pergpu {

Growths growths_of(const Job& job) { return {job.memory_growths, job.gpu_memory_growths}; }

bool lacked_memory(OutcomeClass cls) { return cls == OutcomeClass::OomHost; }

bool lacked_gpu_memory(OutcomeClass cls) {
  return cls == OutcomeClass::OomGpu || cls == OutcomeClass::GpuMemory;
}

bool grows_memory(const StepSpec& step) {
  return step.grow.memory > 1 && step.memory_bytes.has_value();
}

bool grows_gpu_memory(const StepSpec& step) {
  return step.grow.gpu_memory > 1 && step.gpu_memory_bytes.has_value();
}

std::uint64_t grown(std::uint64_t declared, double factor, int growths, std::uint64_t most) {
  if (growths <= 0 || !(factor > 1)) return declared;
  constexpr double kAll = 9.0e18;  // fits the integer with room
  const double wanted = static_cast<double>(declared) * std::pow(factor, growths);
  const auto bytes = static_cast<std::uint64_t>(std::min(wanted, kAll));
  return most == 0 ? bytes : std::min(bytes, std::max(declared, most));
}

}  // namespace pergpu
