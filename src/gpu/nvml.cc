// Layouts are of x86-64 and 64-bit ARM alike.  A struct with a version says in it what it is: size
// in the low 24 bits, version above; older drivers know only the older struct and answer 25, 13
// or 3.
#include "gpu/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "os/fs/file.h"

namespace pergpu::gpu {

namespace {

struct MemoryV1 {
  std::uint64_t total, free, used;
};
struct MemoryV2 {
  std::uint32_t version;
  std::uint64_t total, reserved, free, used;
};
struct PciInfo {
  char bus_id_legacy[16];
  std::uint32_t domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct Utilization {
  std::uint32_t gpu, memory;
};
static_assert(sizeof(MemoryV1) == 24 && sizeof(MemoryV2) == 40 && sizeof(PciInfo) == 68);
static_assert(offsetof(MemoryV2, used) == 32 && offsetof(PciInfo, bus_id) == 36);

constexpr std::uint32_t kMemoryV2Version = sizeof(MemoryV2) | (2u << 24);
constexpr std::size_t kMaxStride = 64;       // twice the largest entry known
constexpr std::size_t kFirstCapacity = 61;   // 6k + 1
constexpr std::size_t kMaxCapacity = 16381;  // 6k + 1; a longer list is not believed
constexpr std::size_t kCpuWords = 64;        // 4096 cores

template <typename F>
void resolve(void* library, const char* symbol, F& function) {
  // The POSIX way round the missing conversion from object to function pointer.
  void* address = ::dlsym(library, symbol);
  std::memcpy(&function, &address, sizeof function);
}

template <typename F>
void resolve_first(void* library, std::initializer_list<const char*> symbols, F& function) {
  for (const char* symbol : symbols) {
    resolve(library, symbol, function);
    if (function != nullptr) return;
  }
}

bool is_absent(int code) {
  return code == nvml_code::kFunctionNotFound || code == nvml_code::kNotSupported ||
         code == nvml_code::kStructVersion;
}

template <typename F>
NvmlAnswer<std::string> text_of(F function, NvmlDevice device) {
  std::array<char, 96> buffer = {};
  if (function == nullptr) return {};
  const int code = function(device, buffer.data(), static_cast<unsigned>(buffer.size()));
  buffer.back() = '\0';
  return {code, buffer.data()};
}

template <typename F>
NvmlAnswer<unsigned> number_of(F function, NvmlDevice device) {
  NvmlAnswer<unsigned> answer;
  if (function != nullptr) answer.code = function(device, &answer.value);
  return answer;
}

template <typename T>
T read_at(const std::vector<unsigned char>& bytes, std::size_t offset) {
  T value = {};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

/// Of the file behind the link, because packages put another file there and keep the link's name.
std::optional<std::pair<std::uint64_t, std::uint64_t>> inode_of(const std::string& path) {
  struct stat found = {};
  if (path.empty() || ::stat(path.c_str(), &found) != 0) return std::nullopt;
  return std::pair<std::uint64_t, std::uint64_t>(found.st_dev, found.st_ino);
}

using ListProcesses = int (*)(NvmlDevice, unsigned*, void*);

NvmlAnswer<std::vector<NvmlProcess>> list_processes(ListProcesses list, NvmlDevice device) {
  std::size_t capacity = kFirstCapacity;
  while (capacity <= kMaxCapacity) {
    std::vector<unsigned char> bytes(capacity * kMaxStride, kNvmlCanary);
    unsigned count = static_cast<unsigned>(capacity);
    const int code = list(device, &count, bytes.data());
    if (code == nvml_code::kInsufficientSize) {
      // More can come between two calls, so twice what was asked for, and 6k + 1 again.
      const std::size_t asked = std::max<std::size_t>(count, capacity);
      capacity = (asked * 2 / 6 + 1) * 6 + 1;
      continue;
    }
    if (code != nvml_code::kSuccess) return {code, {}};
    if (count == 0) return {nvml_code::kSuccess, {}};
    std::optional<std::vector<NvmlProcess>> processes = processes_in(bytes, count, capacity);
    if (!processes) return {nvml_code::kStructVersion, {}};
    return {nvml_code::kSuccess, *std::move(processes)};
  }
  return {nvml_code::kInsufficientSize, {}};
}

}  // namespace

std::string nvml_words(int code) {
  static constexpr std::pair<int, const char*> kWords[] = {
      {0, "no error"},
      {1, "NVML is not initialized"},
      {2, "NVML rejected an argument"},
      {3, "not supported by this GPU or driver"},
      {4, "no permission"},
      {6, "not found"},
      {7, "a buffer is too small"},
      {8, "external power cables are not attached"},
      {9, "the NVIDIA driver is not loaded"},
      {10, "the driver timed out"},
      {11, "the kernel detected an interrupt problem with the GPU"},
      {12, "the NVML library was not found"},
      {13, "the driver's library lacks the function"},
      {14, "the GPU's configuration memory (infoROM) is corrupted"},
      {15, "the GPU is lost: it has fallen off the bus"},
      {16, "the GPU needs a reset"},
      {17, "the operating system or a container's device rules block the GPU"},
      {18, "the driver's library and its kernel module are of different versions"},
      {19, "in use"},
      {20, "the driver is out of memory"},
      {23, "the driver lacks resources"},
      {25, "a structure's version is unknown to the driver"},
      {27, "not ready"},
      {28, "the GPU was not found: it has fallen off the bus"},
      {29, "the GPU is in an invalid state"},
      {999, "unknown driver error"},
  };
  for (const auto& [known, words] : kWords) {
    if (known == code) return fmt::format("{} (NVML {})", words, code);
  }
  return fmt::format("driver error (NVML {})", code);
}

// The last byte of each layout is the top byte of a size (0x00 or 0xFF) or of an instance id (0x00
// or 0xFF), never the canary, so the written part ends where the last entry ends: of the `count`
// valid ones, or of all, for drivers that clear the rest.
std::optional<std::size_t> process_stride(const std::vector<unsigned char>& bytes,
                                          std::size_t count, std::size_t capacity) {
  std::size_t end = bytes.size();
  while (end > 0 && bytes[end - 1] == kNvmlCanary) --end;
  std::optional<std::size_t> found;
  for (const std::size_t stride : {std::size_t{16}, std::size_t{24}, std::size_t{32}}) {
    if (end != stride * count && end != stride * capacity) continue;
    if (found) return std::nullopt;
    found = stride;
  }
  return found;
}

std::optional<std::vector<NvmlProcess>> processes_in(const std::vector<unsigned char>& bytes,
                                                     std::size_t count, std::size_t capacity) {
  const std::optional<std::size_t> stride =
      count <= capacity ? process_stride(bytes, count, capacity) : std::nullopt;
  if (!stride) return std::nullopt;
  std::vector<NvmlProcess> processes;
  for (std::size_t i = 0; i < count; ++i) {
    const auto pid = read_at<std::uint32_t>(bytes, i * *stride);
    const auto memory = read_at<std::uint64_t>(bytes, i * *stride + 8);
    // No process has such a pid: the entries are not what they seem.
    if (pid == 0 || pid > 0x7fffffffu) return std::nullopt;
    processes.push_back(
        {pid, memory == kNvmlNotAvailable ? std::nullopt : std::optional<std::uint64_t>(memory)});
  }
  return processes;
}

Result<Nvml> Nvml::load() {
  const char* chosen = std::getenv("PERGPU_NVML");
  return load(chosen != nullptr && *chosen != '\0' ? chosen : "libnvidia-ml.so.1");
}

Result<Nvml> Nvml::load(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    const bool is_there = path.find('/') != std::string::npos && os::exists(path);
    return Error{is_there ? ErrorKind::Unavailable : ErrorKind::NotFound, 0,
                 fmt::format("load {}: {}", path, why != nullptr ? why : "unknown reason")};
  }
  Functions f;
  resolve_first(library, {"nvmlInit_v2", "nvmlInit"}, f.init);
  resolve(library, "nvmlShutdown", f.shutdown);
  resolve(library, "nvmlSystemGetDriverVersion", f.driver_version);
  resolve(library, "nvmlSystemGetNVMLVersion", f.library_version);
  resolve(library, "nvmlSystemGetCudaDriverVersion_v2", f.cuda_version);
  resolve(library, "nvmlDeviceGetPersistenceMode", f.persistence);
  resolve(library, "nvmlDeviceGetMigMode", f.mig_mode);
  resolve(library, "nvmlDeviceGetMaxMigDeviceCount", f.most_instances);
  resolve(library, "nvmlDeviceGetMigDeviceHandleByIndex", f.instance);
  resolve(library, "nvmlDeviceGetGpuInstanceId", f.gpu_instance);
  resolve(library, "nvmlDeviceGetComputeMode", f.compute_mode);
  resolve_first(library, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"}, f.device_count);
  resolve_first(library, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"}, f.device);
  resolve(library, "nvmlDeviceGetUUID", f.uuid);
  resolve(library, "nvmlDeviceGetName", f.name);
  // The unsuffixed ones write a shorter struct.
  resolve(library, "nvmlDeviceGetPciInfo_v3", f.pci_info);
  resolve(library, "nvmlDeviceGetMinorNumber", f.minor_number);
  resolve(library, "nvmlDeviceGetMemoryInfo", f.memory);
  resolve(library, "nvmlDeviceGetMemoryInfo_v2", f.memory_v2);
  resolve(library, "nvmlDeviceGetComputeRunningProcesses_v3", f.compute_processes[0]);
  resolve(library, "nvmlDeviceGetComputeRunningProcesses_v2", f.compute_processes[1]);
  resolve(library, "nvmlDeviceGetComputeRunningProcesses", f.compute_processes[2]);
  resolve(library, "nvmlDeviceGetGraphicsRunningProcesses_v3", f.graphics_processes[0]);
  resolve(library, "nvmlDeviceGetGraphicsRunningProcesses_v2", f.graphics_processes[1]);
  resolve(library, "nvmlDeviceGetGraphicsRunningProcesses", f.graphics_processes[2]);
  resolve(library, "nvmlDeviceGetNumaNodeId", f.numa_node);
  resolve(library, "nvmlDeviceGetP2PStatus", f.p2p_status);
  resolve(library, "nvmlDeviceGetTopologyCommonAncestor", f.common_ancestor);
  resolve(library, "nvmlDeviceGetUtilizationRates", f.utilization);
  resolve(library, "nvmlDeviceGetCpuAffinity", f.cpu_affinity);
  resolve(library, "nvmlDeviceGetPowerUsage", f.power);
  resolve(library, "nvmlDeviceGetTemperature", f.temperature);
  resolve(library, "nvmlDeviceGetClockInfo", f.clock);
  resolve_first(
      library,
      {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"},
      f.throttle);
  resolve(library, "nvmlDeviceGetFieldValues", f.field_values);
  resolve(library, "nvmlDeviceGetSupportedEventTypes", f.event_types);
  resolve(library, "nvmlEventSetCreate", f.make_events);
  resolve(library, "nvmlDeviceRegisterEvents", f.register_events);
  // The unsuffixed one writes a shorter struct.
  resolve(library, "nvmlEventSetWait_v2", f.wait_for_event);
  resolve(library, "nvmlEventSetFree", f.free_events);
  if (f.init == nullptr || f.device_count == nullptr || f.device == nullptr || f.uuid == nullptr) {
    ::dlclose(library);
    return Error{ErrorKind::Unavailable, 0,
                 fmt::format("{} isn't NVML: it lacks nvmlInit, nvmlDeviceGetCount, "
                             "nvmlDeviceGetHandleByIndex or nvmlDeviceGetUUID",
                             path)};
  }
  return Nvml(library, f);
}

Nvml::Nvml(void* library, const Functions& functions) : library_(library), call_(functions) {
  Dl_info found = {};
  void* address = nullptr;
  std::memcpy(&address, &call_.init, sizeof address);
  if (::dladdr(address, &found) != 0 && found.dli_fname != nullptr) file_ = found.dli_fname;
  inode_ = inode_of(file_);
}

bool Nvml::file_was_replaced() const {
  const auto now = inode_of(file_);
  return inode_.has_value() && now.has_value() && now != inode_;
}

Nvml::Nvml(Nvml&& other) noexcept
    : library_(std::exchange(other.library_, nullptr)),
      call_(other.call_),
      file_(std::move(other.file_)),
      inode_(other.inode_) {}

Nvml::~Nvml() {
  if (library_ != nullptr) ::dlclose(library_);
}

int Nvml::init() { return call_.init(); }

void Nvml::shutdown() {
  if (call_.shutdown != nullptr) call_.shutdown();
}

std::string Nvml::driver_version() {
  std::array<char, 96> buffer = {};
  if (call_.driver_version == nullptr) return {};
  if (call_.driver_version(buffer.data(), static_cast<unsigned>(buffer.size())) != 0) return {};
  buffer.back() = '\0';
  return buffer.data();
}

NvmlAnswer<unsigned> Nvml::device_count() {
  NvmlAnswer<unsigned> answer;
  answer.code = call_.device_count(&answer.value);
  return answer;
}

NvmlAnswer<NvmlDevice> Nvml::device(unsigned index) {
  NvmlAnswer<NvmlDevice> answer;
  answer.code = call_.device(index, &answer.value);
  return answer;
}

NvmlAnswer<std::string> Nvml::uuid(NvmlDevice device) { return text_of(call_.uuid, device); }

NvmlAnswer<std::string> Nvml::name(NvmlDevice device) { return text_of(call_.name, device); }

NvmlAnswer<std::string> Nvml::pci_address(NvmlDevice device) {
  if (call_.pci_info == nullptr) return {};
  PciInfo info = {};
  const int code = call_.pci_info(device, &info);
  info.bus_id[sizeof info.bus_id - 1] = '\0';
  return {code, sysfs_pci_address(info.bus_id)};
}

NvmlAnswer<unsigned> Nvml::minor_number(NvmlDevice device) {
  return number_of(call_.minor_number, device);
}

NvmlAnswer<unsigned> Nvml::numa_node(NvmlDevice device) {
  return number_of(call_.numa_node, device);
}

NvmlAnswer<unsigned> Nvml::utilization(NvmlDevice device) {
  if (call_.utilization == nullptr) return {};
  Utilization rates = {};
  const int code = call_.utilization(device, &rates);
  return {code, rates.gpu};
}

// The newer struct first: its `used` leaves out what the driver reserves for itself.
NvmlAnswer<NvmlMemory> Nvml::memory(NvmlDevice device) {
  NvmlAnswer<NvmlMemory> answer;
  if (call_.memory_v2 != nullptr) {
    MemoryV2 memory = {};
    memory.version = kMemoryV2Version;
    answer = {call_.memory_v2(device, &memory), {memory.total, memory.used}};
    if (!is_absent(answer.code)) return answer;
  }
  if (call_.memory == nullptr) return answer;
  MemoryV1 memory = {};
  const int code = call_.memory(device, &memory);
  return {code, {memory.total, memory.used}};
}

NvmlAnswer<std::vector<NvmlProcess>> Nvml::processes(NvmlDevice device, NvmlProcessKind kind) {
  NvmlAnswer<std::vector<NvmlProcess>> answer;
  for (const ListProcesses list :
       kind == NvmlProcessKind::Compute ? call_.compute_processes : call_.graphics_processes) {
    if (list == nullptr) continue;
    answer = list_processes(list, device);
    if (!is_absent(answer.code)) return answer;
  }
  return answer;
}

NvmlAnswer<std::vector<int>> Nvml::near_cpus(NvmlDevice device) {
  if (call_.cpu_affinity == nullptr) return {};
  std::array<unsigned long, kCpuWords> words = {};
  NvmlAnswer<std::vector<int>> answer;
  answer.code = call_.cpu_affinity(device, static_cast<unsigned>(words.size()), words.data());
  if (!answer.ok()) return answer;
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  for (std::size_t cpu = 0; cpu < words.size() * kBits; ++cpu) {
    if ((words[cpu / kBits] >> (cpu % kBits) & 1) != 0) {
      answer.value.push_back(static_cast<int>(cpu));
    }
  }
  return answer;
}

std::string sysfs_pci_address(std::string_view bus_id) {
  std::string address(bus_id);
  for (char& c : address) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  // NVML writes the domain with eight digits, sysfs with four.
  const std::size_t colon = address.find(':');
  if (colon == 8 && address.compare(0, 4, "0000") == 0) address.erase(0, 4);
  return address;
}

}  // namespace pergpu::gpu
