// A libnvidia-ml.so.1 of our own: answers from the scenario.  A handle is the GPU's index plus one;
// that of an instance has kInstances times that in front of its number.
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>

#include "scenario.h"

namespace {

using fake_nvml::Gpu;
using fake_nvml::Scenario;

using World = std::shared_ptr<const Scenario>;

constexpr int kSuccess = 0;
constexpr int kUninitialized = 1;
constexpr int kInvalidArgument = 2;
constexpr std::uintptr_t kInstances = 1000;
constexpr int kNotSupported = 3;
#ifndef FAKE_NVML_OLD
constexpr int kStructVersion = 25;
constexpr int kTimeout = 10;
constexpr int kNotFound = 6;
constexpr unsigned long long kXidEvent = 0x8;
constexpr std::uint32_t kMemoryV2Version = 40u | (2u << 24);
#endif
constexpr int kInsufficientSize = 7;
constexpr int kGpuIsLost = 15;

int initialized = 0;

void pause_ms(int ms) {
  timespec time{.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1'000'000L};
  ::nanosleep(&time, nullptr);
}

// What the scenario has `function` do before it answers; its error code.
int suffer(const fake_nvml::Faults& faults, const char* function) {
  for (const char* name : {function, "*"}) {
    if (faults.hang.count(name) > 0) {
      for (;;) pause_ms(1000);
    }
    if (const auto delay = faults.delay_ms.find(name); delay != faults.delay_ms.end()) {
      pause_ms(delay->second);
    }
    if (const auto error = faults.errors.find(name); error != faults.errors.end()) {
      return error->second;
    }
  }
  return kSuccess;
}

// The GPU behind `handle`, once machine and GPU let the call through; null with `code` set if not.
const Gpu* gpu_of(const World& world, void* handle, const char* function, int& code) {
  code = suffer(world->faults, function);
  if (code != kSuccess) return nullptr;
  if (initialized == 0) {
    code = kUninitialized;
    return nullptr;
  }
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  const std::uintptr_t whole = number < kInstances ? number : number / kInstances;
  if (whole == 0 || whole > world->gpus.size()) {
    code = kInvalidArgument;
    return nullptr;
  }
  const Gpu& known = world->gpus[whole - 1];
  if (number >= kInstances && number % kInstances >= known.instances.size()) {
    code = kInvalidArgument;
    return nullptr;
  }
  // The probe has one thread, and no call holds on to a GPU.
  static Gpu gpu;
  gpu = fake_nvml::as_it_is(*world,
                            number < kInstances ? known : known.instances[number % kInstances]);
  code = suffer(gpu.faults, function);
  if (code == kSuccess && gpu.lost) code = kGpuIsLost;
  return code == kSuccess ? &gpu : nullptr;
}

#ifndef FAKE_NVML_OLD
// No instance's number: the driver's have nothing to do with each other either.
std::uint32_t gpu_instance_of(const Gpu& instance) {
  return static_cast<std::uint32_t>(instance.instance) + 7;
}
#endif

int copy_text(const std::string& text, char* out, unsigned size) {
  if (text.size() + 1 > size) return kInsufficientSize;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return kSuccess;
}

template <typename T>
void put(void* out, std::size_t offset, T value) {
  std::memcpy(static_cast<char*>(out) + offset, &value, sizeof value);
}

int tell(void* handle, const char* function, std::optional<unsigned> Gpu::*value, unsigned* out) {
  const World world = fake_nvml::current_scenario();
  int code = kSuccess;
  const Gpu* gpu = gpu_of(world, handle, function, code);
  if (gpu == nullptr) return code;
  if (!(gpu->*value)) return kNotSupported;
  *out = *(gpu->*value);
  return kSuccess;
}

int list_processes(void* handle, unsigned* count, void* out, bool compute, const char* function) {
  const World world = fake_nvml::current_scenario();
  int code = kSuccess;
  const Gpu* gpu = gpu_of(world, handle, function, code);
  if (gpu == nullptr) return code;
  std::vector<fake_nvml::Process> processes = fake_nvml::processes_of(*world, *gpu);
  std::erase_if(processes, [&](const fake_nvml::Process& one) { return one.compute != compute; });
  const unsigned capacity = *count;
  *count = static_cast<unsigned>(processes.size());
  if (processes.size() > capacity) return kInsufficientSize;
  const auto stride = static_cast<std::size_t>(world->stride);
  if (world->clears_rest) std::memset(out, 0, stride * capacity);
  for (std::size_t i = 0; i < processes.size(); ++i) {
    char* entry = static_cast<char*>(out) + i * stride;
    std::memset(entry, 0, stride);
    put(entry, 0, processes[i].pid);
    put(entry, 8, processes[i].memory_bytes.value_or(~std::uint64_t{0}));
    if (stride >= 24) put(entry, 16, ~std::uint64_t{0});  // no MIG instance
  }
  return kSuccess;
}

int initialise(const char* function) {
  const int code = suffer(fake_nvml::current_scenario()->faults, function);
  if (code == kSuccess) ++initialized;
  return code;
}

int count_devices(unsigned* count, const char* function) {
  const World world = fake_nvml::current_scenario();
  const int code = suffer(world->faults, function);
  if (code == kSuccess) *count = static_cast<unsigned>(world->gpus.size());
  return initialized == 0 ? kUninitialized : code;
}

int open_device(unsigned index, void** handle, const char* function) {
  const World world = fake_nvml::current_scenario();
  if (index >= world->gpus.size()) return kInvalidArgument;
  void* number = reinterpret_cast<void*>(static_cast<std::uintptr_t>(index) + 1);
  int code = kSuccess;
  if (gpu_of(world, number, function, code) != nullptr) *handle = number;
  return code;
}

}  // namespace

#define FAKE extern "C" __attribute__((visibility("default"))) int

#ifdef FAKE_NVML_OLD
FAKE nvmlInit() { return initialise(__func__); }
FAKE nvmlDeviceGetCount(unsigned* count) { return count_devices(count, __func__); }
FAKE nvmlDeviceGetHandleByIndex(unsigned index, void** handle) {
  return open_device(index, handle, __func__);
}
FAKE nvmlDeviceGetComputeRunningProcesses(void* handle, unsigned* count, void* out) {
  return list_processes(handle, count, out, true, __func__);
}
FAKE nvmlDeviceGetGraphicsRunningProcesses(void* handle, unsigned* count, void* out) {
  return list_processes(handle, count, out, false, __func__);
}
#else
FAKE nvmlInit_v2() { return initialise(__func__); }
FAKE nvmlDeviceGetCount_v2(unsigned* count) { return count_devices(count, __func__); }
FAKE nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  return open_device(index, handle, __func__);
}
FAKE nvmlDeviceGetComputeRunningProcesses_v3(void* handle, unsigned* count, void* out) {
  return list_processes(handle, count, out, true, __func__);
}
FAKE nvmlDeviceGetGraphicsRunningProcesses_v3(void* handle, unsigned* count, void* out) {
  return list_processes(handle, count, out, false, __func__);
}

FAKE nvmlDeviceGetMemoryInfo_v2(void* handle, void* out) {
  const World world = fake_nvml::current_scenario();
  int code = kSuccess;
  const Gpu* gpu = gpu_of(world, handle, __func__, code);
  if (gpu == nullptr) return code;
  std::uint32_t version = 0;
  std::memcpy(&version, out, sizeof version);
  if (version != kMemoryV2Version) return kStructVersion;
  const std::uint64_t used = fake_nvml::used_bytes_of(*world, *gpu);
  put(out, 8, gpu->memory_bytes);
  put(out, 16, std::uint64_t{0});
  put(out, 24, gpu->memory_bytes - std::min(used, gpu->memory_bytes));
  put(out, 32, used);
  return kSuccess;
}

FAKE nvmlDeviceGetPciInfo_v3(void* handle, void* out) {
  const World world = fake_nvml::current_scenario();
  int code = kSuccess;
  const Gpu* gpu = gpu_of(world, handle, __func__, code);
  if (gpu == nullptr) return code;
  std::memset(out, 0, 68);
  return copy_text(gpu->pci, static_cast<char*>(out) + 36, 32);
}

FAKE nvmlDeviceGetFieldValues(void* handle, int count, void* out) {
  const World world = fake_nvml::current_scenario();
  int code = kSuccess;
  const Gpu* gpu = gpu_of(world, handle, __func__, code);
  if (gpu == nullptr) return code;
  for (int i = 0; i < count; ++i) {
    char* field = static_cast<char*>(out) + 40 * i;
    std::uint32_t number = 0;
    std::memcpy(&number, field, sizeof number);
    if (number == 230 && !gpu->recovery_action) return kInvalidArgument;
    const bool is_known = number == 144 || number == 145 || number == 230;
    const auto value =
        static_cast<std::uint32_t>(number == 144   ? gpu->repair_pending
                                   : number == 145 ? gpu->repair_failed
                                                   : gpu->recovery_action.value_or(0));
    put(field, 24, std::uint32_t{1});  // an unsigned int
    put(field, 28, is_known ? kSuccess : kNotSupported);
    put(field, 32, is_known ? value : 0xdeadbeefu);
    put(field, 36, 0xdeadbeefu);  // what lies beyond is nobody's
  }
  return kSuccess;
}

// A set of events: the GPUs registered with it, and how many Xids of each were taken, and of each
// of their instances.
struct EventSet {
  std::map<std::size_t, std::map<int, std::size_t> > taken;
};

FAKE nvmlEventSetCreate(void** out) {
  *out = new EventSet();
  return kSuccess;
}
FAKE nvmlEventSetFree(void* events) {
  delete static_cast<EventSet*>(events);
  return kSuccess;
}
FAKE nvmlDeviceGetSupportedEventTypes(void* handle, unsigned long long* types) {
  const World world = fake_nvml::current_scenario();
  int code = kSuccess;
  if (gpu_of(world, handle, __func__, code) != nullptr) *types = 0x1f;
  return code;
}
FAKE nvmlDeviceRegisterEvents(void* handle, unsigned long long types, void* events) {
  const World world = fake_nvml::current_scenario();
  int code = kSuccess;
  const Gpu* gpu = gpu_of(world, handle, __func__, code);
  if (gpu == nullptr) return code;
  if (types != kXidEvent) return kNotSupported;
  const auto index = static_cast<std::size_t>(gpu->index);
  std::map<int, std::size_t>& taken = static_cast<EventSet*>(events)->taken[index];
  taken[-1] = fake_nvml::xids_of(*world, *gpu).size();
  for (const Gpu& one : gpu->instances) {
    taken[one.instance] = fake_nvml::xids_of(*world, one).size();
  }
  return kSuccess;
}
FAKE nvmlEventSetWait_v2(void* events, void* out, unsigned) {
  const World world = fake_nvml::current_scenario();
  const int code = suffer(world->faults, __func__);
  if (code != kSuccess) return code;
  for (auto& [index, taken] : static_cast<EventSet*>(events)->taken) {
    if (index >= world->gpus.size()) continue;
    std::vector<Gpu> parts = world->gpus[index].instances;
    parts.push_back(world->gpus[index]);
    for (const Gpu& one : parts) {
      const std::vector<std::uint64_t> xids = fake_nvml::xids_of(*world, one);
      if (one.uuid.empty() || taken[one.instance] >= xids.size()) continue;
      put(out, 0, static_cast<std::uintptr_t>(index) + 1);
      put(out, 8, std::uint64_t{kXidEvent});
      put(out, 16, xids[taken[one.instance]++]);
      put(out, 24, one.instance < 0 ? ~std::uint32_t{0} : gpu_instance_of(one));
      put(out, 28, ~std::uint32_t{0});
      return kSuccess;
    }
  }
  return kTimeout;
}

// Both GPUs of a pair have to answer.
int pair_of(const World& world, void* a, void* b, const char* function, int& first, int& second) {
  int code = kSuccess;
  const Gpu* gpu = gpu_of(world, a, function, code);
  if (gpu == nullptr) return code;
  first = gpu->index;
  gpu = gpu_of(world, b, function, code);
  if (gpu != nullptr) second = gpu->index;
  return code;
}
FAKE nvmlDeviceGetP2PStatus(void* a, void* b, int capability, int* status) {
  const World world = fake_nvml::current_scenario();
  int first = 0;
  int second = 0;
  const int code = pair_of(world, a, b, __func__, first, second);
  if (code != kSuccess) return code;
  const auto joins = [&](const std::pair<int, int>& link) {
    return link == std::pair(first, second) || link == std::pair(second, first);
  };
  const bool linked = std::any_of(world->nvlinks.begin(), world->nvlinks.end(), joins);
  *status = capability == 2 && linked ? 0 : 2;
  return kSuccess;
}
FAKE nvmlDeviceGetTopologyCommonAncestor(void* a, void* b, int* level) {
  const World world = fake_nvml::current_scenario();
  int first = 0;
  int second = 0;
  const int code = pair_of(world, a, b, __func__, first, second);
  if (code != kSuccess) return code;
  const auto row = static_cast<std::size_t>(first);
  const auto column = static_cast<std::size_t>(second);
  const bool is_told = row < world->ancestors.size() && column < world->ancestors[row].size();
  *level = is_told ? world->ancestors[row][column] : 50;
  return kSuccess;
}

FAKE nvmlDeviceGetNumaNodeId(void* handle, unsigned* node) {
  const World world = fake_nvml::current_scenario();
  int code = kSuccess;
  const Gpu* gpu = gpu_of(world, handle, __func__, code);
  if (gpu == nullptr) return code;
  if (!gpu->numa) return kNotSupported;
  *node = static_cast<unsigned>(*gpu->numa);
  return kSuccess;
}

// Works before nvmlInit, as the real one does.
FAKE nvmlSystemGetNVMLVersion(char* out, unsigned size) {
  return copy_text("12." + fake_nvml::current_scenario()->library, out, size);
}
FAKE nvmlSystemGetCudaDriverVersion_v2(int* version) {
  const World world = fake_nvml::current_scenario();
  const int code = suffer(world->faults, __func__);
  if (code == kSuccess) *version = world->cuda;
  return code;
}
FAKE nvmlDeviceGetPersistenceMode(void* handle, int* mode) {
  const World world = fake_nvml::current_scenario();
  int code = kSuccess;
  const Gpu* gpu = gpu_of(world, handle, __func__, code);
  if (gpu != nullptr) *mode = gpu->persistent ? 1 : 0;
  return code;
}
FAKE nvmlDeviceGetMigMode(void* handle, unsigned* now, unsigned* pending) {
  const World world = fake_nvml::current_scenario();
  int code = kSuccess;
  const Gpu* gpu = gpu_of(world, handle, __func__, code);
  if (gpu == nullptr) return code;
  if (!gpu->mig) return kNotSupported;
  *now = *gpu->mig ? 1 : 0;
  *pending = gpu->mig_pending ? 1 : 0;
  return kSuccess;
}
FAKE nvmlDeviceGetMaxMigDeviceCount(void* handle, unsigned* count) {
  const World world = fake_nvml::current_scenario();
  int code = kSuccess;
  const Gpu* gpu = gpu_of(world, handle, __func__, code);
  if (gpu != nullptr) *count = static_cast<unsigned>(gpu->instances.size());
  return code;
}
FAKE nvmlDeviceGetMigDeviceHandleByIndex(void* handle, unsigned number, void** instance) {
  const World world = fake_nvml::current_scenario();
  int code = kSuccess;
  const Gpu* gpu = gpu_of(world, handle, __func__, code);
  if (gpu == nullptr) return code;
  if (number >= gpu->instances.size()) return kInvalidArgument;
  if (gpu->instances[number].uuid.empty()) return kNotFound;
  const std::uintptr_t whole = static_cast<std::uintptr_t>(gpu->index) + 1;
  *instance = reinterpret_cast<void*>(whole * kInstances + number);
  return kSuccess;
}
FAKE nvmlDeviceGetGpuInstanceId(void* handle, unsigned* id) {
  const World world = fake_nvml::current_scenario();
  int code = kSuccess;
  const Gpu* gpu = gpu_of(world, handle, __func__, code);
  if (gpu == nullptr) return code;
  if (gpu->instance < 0) return kNotSupported;
  *id = gpu_instance_of(*gpu);
  return kSuccess;
}
FAKE nvmlDeviceGetComputeMode(void* handle, int* mode) {
  const World world = fake_nvml::current_scenario();
  int code = kSuccess;
  const Gpu* gpu = gpu_of(world, handle, __func__, code);
  if (gpu != nullptr) *mode = gpu->compute_mode;
  return code;
}
#endif

FAKE nvmlShutdown() {
  if (initialized == 0) return kUninitialized;
  --initialized;
  return kSuccess;
}

FAKE nvmlSystemGetDriverVersion(char* out, unsigned size) {
  const World world = fake_nvml::current_scenario();
  const int code = suffer(world->faults, __func__);
  return code == kSuccess ? copy_text(world->driver, out, size) : code;
}

FAKE nvmlDeviceGetUUID(void* handle, char* out, unsigned size) {
  const World world = fake_nvml::current_scenario();
  int code = kSuccess;
  const Gpu* gpu = gpu_of(world, handle, __func__, code);
  return gpu == nullptr ? code : copy_text(gpu->uuid, out, size);
}

FAKE nvmlDeviceGetName(void* handle, char* out, unsigned size) {
  const World world = fake_nvml::current_scenario();
  int code = kSuccess;
  const Gpu* gpu = gpu_of(world, handle, __func__, code);
  return gpu == nullptr ? code : copy_text(gpu->name, out, size);
}

FAKE nvmlDeviceGetMinorNumber(void* handle, unsigned* minor) {
  const World world = fake_nvml::current_scenario();
  int code = kSuccess;
  const Gpu* gpu = gpu_of(world, handle, __func__, code);
  if (gpu != nullptr) *minor = static_cast<unsigned>(gpu->minor);
  return code;
}

FAKE nvmlDeviceGetMemoryInfo(void* handle, void* out) {
  const World world = fake_nvml::current_scenario();
  int code = kSuccess;
  const Gpu* gpu = gpu_of(world, handle, __func__, code);
  if (gpu == nullptr) return code;
  const std::uint64_t used = fake_nvml::used_bytes_of(*world, *gpu);
  put(out, 0, gpu->memory_bytes);
  put(out, 8, gpu->memory_bytes - std::min(used, gpu->memory_bytes));
  put(out, 16, used);
  return kSuccess;
}

FAKE nvmlDeviceGetUtilizationRates(void* handle, void* out) {
  const World world = fake_nvml::current_scenario();
  int code = kSuccess;
  const Gpu* gpu = gpu_of(world, handle, __func__, code);
  if (gpu == nullptr) return code;
  if (gpu->instance >= 0) return kNotSupported;
  put(out, 0, static_cast<std::uint32_t>(gpu->utilization));
  put(out, 4, std::uint32_t{0});
  return kSuccess;
}

FAKE nvmlDeviceGetPowerUsage(void* handle, unsigned* milliwatts) {
  return tell(handle, __func__, &Gpu::power_mw, milliwatts);
}

FAKE nvmlDeviceGetTemperature(void* handle, int sensor, unsigned* celsius) {
  if (sensor != 0) return kInvalidArgument;
  return tell(handle, __func__, &Gpu::temperature_c, celsius);
}

FAKE nvmlDeviceGetClockInfo(void* handle, int clock, unsigned* megahertz) {
  if (clock != 1) return kInvalidArgument;
  return tell(handle, __func__, &Gpu::clock_mhz, megahertz);
}

#ifdef FAKE_NVML_OLD
FAKE nvmlDeviceGetCurrentClocksThrottleReasons(void* handle, unsigned long long* reasons) {
#else
FAKE nvmlDeviceGetCurrentClocksEventReasons(void* handle, unsigned long long* reasons) {
#endif
  unsigned bits = 0;
  const int code = tell(handle, __func__, &Gpu::throttle, &bits);
  if (code == kSuccess) *reasons = bits;
  return code;
}

FAKE nvmlDeviceGetCpuAffinity(void* handle, unsigned words, unsigned long* out) {
  const World world = fake_nvml::current_scenario();
  int code = kSuccess;
  const Gpu* gpu = gpu_of(world, handle, __func__, code);
  if (gpu == nullptr) return code;
  if (gpu->cpus.empty()) return kNotSupported;
  std::memset(out, 0, words * sizeof *out);
  for (const int cpu : gpu->cpus) {
    const auto bit = static_cast<std::size_t>(cpu);
    if (bit / 64 < words) out[bit / 64] |= 1ul << (bit % 64);
  }
  return kSuccess;
}
