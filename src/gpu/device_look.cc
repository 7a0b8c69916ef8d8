// A GPU's identity is asked for first: without a UUID there is no lane.  A value that this driver
// or GPU does not offer leaves its field empty; only codes that speak of the device close it.
#include "gpu/device_look.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "gpu/foreign.h"
#include "gpu/health.h"
#include "gpu/locality.h"
#include "gpu/processes.h"

namespace pergpu::gpu {

namespace {

// The reply must stay bounded whatever the library says.
constexpr unsigned kMaxInstances = 32;

void add_processes(const std::vector<NvmlProcess>& found, bool compute, bool in_container,
                   GpuReading& reading) {
  for (const NvmlProcess& one : found) {
    if (reading.processes.size() == kMaxProcesses) break;
    const auto pid = static_cast<std::int32_t>(one.pid);
    // A process that computes and draws is in both lists.
    const auto same_pid = [&](const GpuProcess& known) { return known.pid == pid; };
    if (std::ranges::any_of(reading.processes, same_pid)) continue;
    GpuProcess process{.pid = pid, .memory_bytes = one.memory_bytes, .compute = compute};
    if (in_container) {
      process.matched = false;
    } else {
      describe_process(process);
    }
    reading.processes.push_back(std::move(process));
  }
}

/// 0: not reported.
int distance_of(Nvml& nvml, NvmlDevice a, NvmlDevice b) {
  const NvmlAnswer<bool> linked = nvml.has_nvlink(a, b);
  if (linked.ok() && linked.value) return kByNvLink;
  const NvmlAnswer<int> ancestor = nvml.common_ancestor(a, b);
  if (!ancestor.ok() || ancestor.value < 0 || ancestor.value > kAcrossSockets) return 0;
  return std::max(ancestor.value, kOnOneBoard);
}

}  // namespace

DeviceVerdict judge_device_code(int code) {
  switch (code) {
    case nvml_code::kSuccess:
    case nvml_code::kNotSupported:
    case nvml_code::kNoPermission:
    case nvml_code::kFunctionNotFound:
    case nvml_code::kStructVersion:
      return {};
    case nvml_code::kGpuIsLost:
    case nvml_code::kGpuNotFound:
      return {GpuHealth::Lost, nvml_words(code)};
    case nvml_code::kTimeout:
      return {GpuHealth::Unknown, nvml_words(code)};
    default:  // an open set: NVML's codes grow
      return {GpuHealth::Error, nvml_words(code)};
  }
}

GpuLook failed_look(int code, const std::string& what) {
  GpuLook look;
  look.why = fmt::format("{}: {}", what, nvml_words(code));
  if (code == nvml_code::kDriverNotLoaded || code == nvml_code::kLibraryNotFound) {
    look.complete = true;
    look.no_driver = true;
    look.why = "no NVIDIA driver: " + nvml_words(code);
  }
  if (code == nvml_code::kVersionMismatch) {
    look.driver_mismatch = true;
    look.why = nvml_words(code) + ": restart the machine or reload the kernel module";
  }
  if (code == nvml_code::kOperatingSystem || code == nvml_code::kNoPermission) {
    look.why += "; in a container, give it the GPU devices and the `utility` driver capability";
  }
  return look;
}

GpuLook DeviceLooker::look(Nvml& nvml, const std::set<int>& skip,
                           const std::function<void(int)>& before) {
  const NvmlAnswer<unsigned> count = nvml.device_count();
  if (!count.ok()) return failed_look(count.code, "count the GPUs");
  GpuLook look;
  look.in_container = in_pid_namespace();
  for (unsigned index = 0; index < std::min(count.value, kMaxGpus); ++index) {
    const int number = static_cast<int>(index);
    GpuReading reading;
    if (const auto known = known_.find(index); known != known_.end()) {
      reading = known->second.facts;
    }
    reading.index = number;
    if (skip.count(number) > 0) {
      reading.health = GpuHealth::Unknown;
      reading.note = "the driver hung on a query for this GPU";
    } else {
      before(number);
      int code = nvml_code::kSuccess;
      if (known_.count(index) == 0) code = learn(nvml, index, reading);
      if (code == nvml_code::kVersionMismatch) return failed_look(code, "open a GPU");
      if (code == nvml_code::kSuccess && is_cut(nvml, known_[index])) {
        std::ranges::move(read_instances(nvml, known_[index], look.in_container),
                          std::back_inserter(look.gpus));
        continue;
      }
      if (code == nvml_code::kSuccess) {
        reading.mig = known_[index].facts.mig;
        read(nvml, known_[index], reading, look.in_container);
      } else {
        const DeviceVerdict verdict = judge_device_code(code);
        // Without handle and UUID even "no permission" closes the device.
        reading.health = verdict.health == GpuHealth::Ok ? GpuHealth::Error : verdict.health;
        reading.note = nvml_words(code);
      }
    }
    look.gpus.push_back(std::move(reading));
  }
  pair(nvml, skip, before);
  for (GpuReading& reading : look.gpus) {
    const auto known = known_.find(static_cast<unsigned>(reading.index));
    if (known != known_.end() && reading.instance < 0)
      reading.distances = known->second.facts.distances;
  }
  look.complete = true;
  if (look.gpus.empty()) look.why = "the NVIDIA driver finds no GPU";
  return look;
}

int DeviceLooker::learn(Nvml& nvml, unsigned index, GpuReading& reading) {
  const NvmlAnswer<NvmlDevice> device = nvml.device(index);
  if (!device.ok()) return device.code;
  const NvmlAnswer<std::string> uuid = nvml.uuid(device.value);
  if (!uuid.ok()) return uuid.code;
  reading.uuid = uuid.value;
  const NvmlAnswer<std::string> name = nvml.name(device.value);
  if (name.ok()) reading.name = name.value;
  const NvmlAnswer<std::string> pci = nvml.pci_address(device.value);
  if (pci.ok()) reading.pci = pci.value;
  const NvmlAnswer<unsigned> minor = nvml.minor_number(device.value);
  if (minor.ok()) reading.minor = static_cast<int>(minor.value);
  const NvmlSettings settings = nvml.settings(device.value);
  reading.persistent = settings.persistent;
  reading.mig = settings.mig;
  reading.mig_pending = settings.mig_pending;
  reading.compute_mode = settings.compute_mode;

  Locality locality = locality_of(sysfs_, reading.pci);
  if (locality.numa_node < 0) {
    const NvmlAnswer<unsigned> node = nvml.numa_node(device.value);
    if (node.ok() && node.value < 1024) {
      locality.numa_node = static_cast<int>(node.value);
      locality.near_cpus = cpus_of_node(sysfs_, locality.numa_node);
    }
  }
  if (locality.near_cpus.empty()) {
    NvmlAnswer<std::vector<int>> cpus = nvml.near_cpus(device.value);
    if (cpus.ok()) locality.near_cpus = std::move(cpus.value);
  }
  reading.numa_node = locality.numa_node;
  reading.near_cpus = std::move(locality.near_cpus);
  known_[index] = {.device = device.value,
                   .facts = reading,
                   .lowest_used_bytes = kMaxIdleBytes,
                   .board = device.value,
                   .events = nvml.watch_xids(device.value).value};
  return nvml_code::kSuccess;
}

/// Newer GPUs are cut, or made whole, without a reset.
bool DeviceLooker::is_cut(Nvml& nvml, Known& gpu) {
  const NvmlAnswer<bool> cut = nvml.is_cut(gpu.device);
  if (cut.ok()) gpu.facts.mig = cut.value;
  if (gpu.facts.mig != true) gpu.instances.clear();
  return gpu.facts.mig == true;
}

// They come and go while the driver is in use, and a number may be given again.
int DeviceLooker::learn_instances(Nvml& nvml, Known& gpu) {
  const NvmlAnswer<unsigned> most = nvml.most_instances(gpu.device);
  if (!most.ok()) return most.code;
  std::vector<Known> found;
  for (unsigned number = 0; number < std::min(most.value, kMaxInstances); ++number) {
    const NvmlAnswer<NvmlDevice> device = nvml.instance(gpu.device, number);
    if (device.code == nvml_code::kNotFound) continue;
    if (!device.ok()) return device.code;
    const NvmlAnswer<std::string> uuid = nvml.uuid(device.value);
    if (uuid.code == nvml_code::kNotFound) continue;  // it went in between
    if (!uuid.ok()) return uuid.code;
    const auto known = std::ranges::find_if(
        gpu.instances, [&](const Known& one) { return one.facts.uuid == uuid.value; });
    if (known != gpu.instances.end()) {
      found.push_back(*known);
    } else {
      Known& one =
          found.emplace_back(Known{.facts = gpu.facts, .lowest_used_bytes = kMaxIdleBytes});
      one.facts.uuid = uuid.value;
      // What keeps the device open may use another instance.
      one.facts.minor = -1;
      const NvmlAnswer<std::string> name = nvml.name(device.value);
      if (name.ok()) one.facts.name = name.value;
    }
    Known& one = found.back();
    one.device = device.value;
    one.board = gpu.device;
    one.facts.instance = static_cast<int>(number);
    const NvmlAnswer<unsigned> gpu_instance = nvml.gpu_instance(device.value);
    one.gpu_instance = gpu_instance.ok() ? std::optional(gpu_instance.value) : std::nullopt;
  }
  gpu.instances = std::move(found);
  return nvml_code::kSuccess;
}

std::vector<GpuReading> DeviceLooker::read_instances(Nvml& nvml, Known& gpu, bool in_container) {
  const int code = learn_instances(nvml, gpu);
  const DeviceVerdict verdict = judge_device_code(code);
  std::vector<GpuReading> readings;
  for (Known& one : gpu.instances) {
    GpuReading& reading = readings.emplace_back(one.facts);
    reading.health = verdict.health;
    reading.note = verdict.note;
    if (verdict.health == GpuHealth::Ok) read(nvml, one, reading, in_container);
  }
  if (!readings.empty()) return readings;
  GpuReading& whole = readings.emplace_back(gpu.facts);
  whole.health = verdict.health == GpuHealth::Ok ? GpuHealth::Unknown : verdict.health;
  whole.note = code == nvml_code::kSuccess ? "MIG mode is on, but it has no instances"
                                           : "can't read its MIG instances: " + nvml_words(code);
  return readings;
}

void DeviceLooker::pair(Nvml& nvml, const std::set<int>& skip,
                        const std::function<void(int)>& before) {
  if (paired_ == known_.size()) return;
  const auto is_skipped = [&](unsigned index) { return skip.count(static_cast<int>(index)) > 0; };
  const bool all =
      std::ranges::none_of(known_, [&](const auto& one) { return is_skipped(one.first); });
  paired_ = all ? known_.size() : 0;
  const std::size_t count = known_.empty() ? 0 : known_.rbegin()->first + std::size_t{1};
  for (auto& [index, one] : known_) one.facts.distances.assign(count, 0);
  for (auto a = known_.begin(); a != known_.end(); ++a) {
    if (is_skipped(a->first) || std::next(a) == known_.end()) continue;
    before(static_cast<int>(a->first));
    for (auto b = std::next(a); b != known_.end(); ++b) {
      if (is_skipped(b->first)) continue;
      const int distance = distance_of(nvml, a->second.device, b->second.device);
      a->second.facts.distances[b->first] = distance;
      b->second.facts.distances[a->first] = distance;
    }
  }
}

void DeviceLooker::read(Nvml& nvml, Known& known, GpuReading& reading, bool in_container) {
  // The worst verdict of all calls stands; a lost GPU is not asked further.
  const auto note_code = [&](int code) {
    DeviceVerdict verdict = judge_device_code(code);
    if (verdict.health == GpuHealth::Ok) return true;
    reading.health = verdict.health;
    reading.note = std::move(verdict.note);
    return false;
  };

  const NvmlHealth health = nvml.health(known.board);
  reading.repair_pending = health.repair_pending;
  reading.repair_failed = health.repair_failed;
  reading.recovery_action = health.recovery_action;
  const NvmlAnswer<NvmlMemory> memory = nvml.memory(known.device);
  if (memory.code == nvml_code::kResetRequired) reading.recovery_action = kRecoveryReset;
  if (!note_code(memory.code)) return;
  if (memory.ok()) {
    reading.total_bytes = known.facts.total_bytes = memory.value.total_bytes;
    reading.used_bytes = memory.value.used_bytes;
  }
  if (const NvmlAnswer<unsigned> busy = nvml.utilization(known.device); busy.ok())
    reading.utilization = static_cast<int>(busy.value);
  for (const NvmlProcessKind kind : {NvmlProcessKind::Compute, NvmlProcessKind::Graphics}) {
    const bool compute = kind == NvmlProcessKind::Compute;
    const NvmlAnswer<std::vector<NvmlProcess>> processes = nvml.processes(known.device, kind);
    if (!note_code(processes.code)) return;
    if (processes.ok()) {
      add_processes(processes.value, compute, in_container, reading);
    } else if (compute && processes.code == nvml_code::kStructVersion) {
      // Guessing who is on a GPU would put two jobs on it.
      reading.health = GpuHealth::Unknown;
      reading.note = fmt::format(
          "driver {} lists processes in a format that this version of pergpu doesn't support",
          nvml.driver_version());
      return;
    }
  }

  const bool is_used = std::ranges::any_of(reading.processes, &GpuProcess::compute);
  // The driver lists a program that has ended as long as what it forked keeps the device open.  In
  // a container every pid is unknown.
  const bool is_explained = std::ranges::any_of(reading.processes, [&](const GpuProcess& p) {
    return p.compute && (p.matched || in_container);
  });
  if (is_used && !is_explained && reading.minor >= 0) {
    reading.device_holders = holders_of(fmt::format("{}/nvidia{}", devices_, reading.minor));
  }
  if (is_used) return;
  const std::uint64_t settled = settled_bytes(reading);
  known.lowest_used_bytes = std::min(known.lowest_used_bytes, settled);
  if (reading.minor >= 0 && settled > known.lowest_used_bytes + kCleanAboveIdleBytes) {
    reading.device_holders = holders_of(fmt::format("{}/nvidia{}", devices_, reading.minor));
  }
}

std::vector<GpuXid> DeviceLooker::take_xids(Nvml& nvml, std::int64_t boot_ns) {
  std::vector<GpuXid> xids;
  for (const auto& [index, known] : known_) {
    if (known.events == nullptr) continue;
    for (const NvmlXid& xid : nvml.take_xids(known.events)) {
      const auto number = static_cast<std::int64_t>(xid.number);
      if (known.instances.empty()) xids.push_back({known.facts.uuid, number, boot_ns});
      const auto is_named = [&](const Known& one) {
        return xid.gpu_instance && one.gpu_instance == xid.gpu_instance;
      };
      const bool any_named = std::ranges::any_of(known.instances, is_named);
      for (const Known& one : known.instances) {
        if (!any_named || is_named(one)) xids.push_back({one.facts.uuid, number, boot_ns});
      }
    }
  }
  return xids;
}

std::vector<GpuUsage> DeviceLooker::usage(Nvml& nvml, const std::vector<std::string>& uuids,
                                          const std::set<int>& skip,
                                          const std::function<void(int)>& before) {
  std::vector<GpuUsage> found;
  for (const auto& [index, known] : known_) {
    const int number = static_cast<int>(index);
    const std::vector<const Known*> asked = asked_for(uuids, known);
    if (skip.count(number) > 0 || asked.empty()) continue;
    before(number);
    for (const Known* one : asked) found.push_back(usage_of(nvml, *one));
  }
  return found;
}

std::vector<const DeviceLooker::Known*> DeviceLooker::asked_for(
    const std::vector<std::string>& uuids, const Known& gpu) const {
  const auto is_asked = [&](const Known& one) {
    return std::ranges::find(uuids, one.facts.uuid) != uuids.end();
  };
  std::vector<const Known*> asked;
  if (is_asked(gpu)) asked.push_back(&gpu);
  for (const Known& one : gpu.instances) {
    if (is_asked(one)) asked.push_back(&one);
  }
  return asked;
}

/// An instance has its own memory; power is of the whole GPU, and not reported of an instance.
GpuUsage DeviceLooker::usage_of(Nvml& nvml, const Known& known) const {
  GpuUsage usage{.uuid = known.facts.uuid};
  const NvmlAnswer<NvmlMemory> memory = nvml.memory(known.device);
  if (memory.ok()) usage.used_bytes = memory.value.used_bytes;
  if (judge_device_code(memory.code).health != GpuHealth::Ok) return usage;
  const auto tell = [&](const NvmlAnswer<unsigned>& answer, auto& value) {
    if (answer.ok()) value = static_cast<int>(answer.value);
  };
  tell(nvml.utilization(known.device), usage.busy_percent);
  if (known.facts.instance < 0) tell(nvml.power_mw(known.board), usage.power_mw);
  tell(nvml.temperature_c(known.board), usage.temperature_c);
  tell(nvml.clock_mhz(known.board), usage.clock_mhz);
  const NvmlAnswer<std::uint32_t> throttle = nvml.throttle(known.board);
  if (throttle.ok()) usage.throttle = throttle.value;
  return usage;
}

void DeviceLooker::forget(Nvml& nvml) {
  for (const auto& [index, known] : known_) {
    if (known.events != nullptr) nvml.unwatch(known.events);
  }
  known_.clear();
  paired_ = 0;
}

}  // namespace pergpu::gpu
