// A GPU without an id or its own memory is no lane: as a rule it is a part of the processor and
// drives the screen.
//
// A process that has the device open without any of its memory is left out: every program with a
// window looks at all GPUs there are, and to gpu/foreign.h each process of the list either computes
// or explains memory in use.
//
// What another user's process has is not ours to read.  Its memory is then in use without a process
// that explains it, and that closes the GPU as well.
#include "gpu/amd_look.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "gpu/amd_uuid.h"
#include "gpu/locality.h"
#include "gpu/processes.h"
#include "number.h"
#include "os/fs/file.h"

namespace pergpu::gpu {

namespace {

// The reply must stay bounded whatever the files say.
constexpr std::size_t kMaxName = 64;

constexpr std::string_view kDriver = "amdgpu";
constexpr std::string_view kVendor = "0x1002";

/// The first line; "" where it cannot be read.
std::string line_of(const std::string& path) {
  const Result<std::string> text = os::read_file(path, 4096);
  return text ? text->substr(0, text->find('\n')) : std::string();
}

std::optional<std::uint64_t> number_of(const std::string& path) {
  return whole_number<std::uint64_t>(line_of(path));
}

std::optional<int> busy_percent_of(const std::string& folder) {
  const std::optional<std::uint64_t> percent = number_of(folder + "/gpu_busy_percent");
  if (!percent || *percent > 100) return std::nullopt;
  return static_cast<int>(*percent);
}

/// "card0"; not its connectors ("card0-DP-1").
bool is_card(std::string_view name) {
  constexpr std::string_view kPrefix = "card";
  return name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
         name.find_first_not_of("0123456789", kPrefix.size()) == std::string_view::npos;
}

/// "0000:65:00.0"
bool is_pci_address(std::string_view name) {
  return std::ranges::count(name, ':') == 2 && std::ranges::count(name, '.') == 1 &&
         name.find_first_not_of("0123456789abcdef:.") == std::string_view::npos;
}

/// The PCI address of the device that a card is; "": it is none of PCI.
std::string address_of(const std::string& link) {
  std::array<char, 4096> target;
  const ssize_t size = ::readlink(link.c_str(), target.data(), target.size());
  if (size <= 0) return {};
  std::string_view name(target.data(), static_cast<std::size_t>(size));
  name.remove_prefix(name.rfind('/') + 1);
  return is_pci_address(name) ? std::string(name) : std::string();
}

/// Only some cards for servers report their names.
std::string name_of(const std::string& folder) {
  std::string name = line_of(folder + "/product_name").substr(0, kMaxName);
  // It is shown to people.
  for (char& c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  if (!name.empty()) return name;
  std::string device = line_of(folder + "/device");
  if (device.starts_with("0x")) device.erase(0, 2);
  return device.empty() || device.size() > 8 ? "AMD GPU" : "AMD GPU " + device;
}

/// Those with memory on the GPU at `pci`.
std::vector<GpuProcess> processes_on(const std::vector<DrmClient>& clients,
                                     const std::string& pci) {
  std::vector<GpuProcess> processes;
  for (const DrmClient& client : clients) {
    if (client.pci != pci || client.vram_bytes == 0) continue;
    const auto known = std::ranges::find(processes, client.pid, &GpuProcess::pid);
    if (known != processes.end()) {
      known->memory_bytes = *known->memory_bytes + client.vram_bytes;
      known->compute = known->compute || !client.only_draws;
      continue;
    }
    if (processes.size() == kMaxProcesses) continue;
    processes.push_back(
        {.pid = client.pid, .memory_bytes = client.vram_bytes, .compute = !client.only_draws});
  }
  for (GpuProcess& process : processes) describe_process(process);
  // One that has ended since gave its memory back.
  std::erase_if(processes, [](const GpuProcess& process) { return !process.matched; });
  return processes;
}

}  // namespace

bool is_amd(const GpuLook& look) {
  return !look.gpus.empty() && std::ranges::all_of(look.gpus, is_amd_uuid, &GpuReading::uuid);
}

std::vector<GpuReading> AmdLooker::look(const std::set<int>& skip,
                                        const std::function<void(int)>& before) {
  learn();
  std::vector<GpuReading> gpus;
  if (known_.empty()) return gpus;
  const std::vector<DrmClient> clients = drm_clients(proc_, kDriver);
  for (const auto& [place, known] : known_) {
    GpuReading& reading = gpus.emplace_back(known.facts);
    if (!known.is_there) {
      reading.health = GpuHealth::Error;
      reading.note = "the kernel driver no longer lists it";
      continue;
    }
    if (skip.count(reading.index) > 0) {
      reading.health = GpuHealth::Unknown;
      reading.note = "the driver hung on a query for this GPU";
      continue;
    }
    before(reading.index);
    const std::string used_file = known.folder + "/mem_info_vram_used";
    const std::optional<std::uint64_t> used = number_of(used_file);
    if (!used) {
      reading.health = GpuHealth::Unknown;
      reading.note = "can't read its memory use: " + used_file;
      continue;
    }
    reading.used_bytes = *used;
    reading.utilization = busy_percent_of(known.folder);
    reading.processes = processes_on(clients, reading.pci);
  }
  return gpus;
}

void AmdLooker::learn() {
  for (auto& [place, known] : known_) known.is_there = false;
  const std::string cards = sysfs_ + "/class/drm";
  if (const Result<std::vector<std::string>> names = os::list_dir(cards); names) {
    for (const std::string& name : *names) {
      if (is_card(name)) learn_one(fmt::format("{}/{}/device", cards, name));
    }
  }
  int index = 0;
  for (auto& [place, known] : known_) known.facts.index = index++;
}

void AmdLooker::learn_one(const std::string& folder) {
  const std::string pci = address_of(folder);
  if (pci.empty() || line_of(folder + "/vendor") != kVendor) return;
  const Place place{pci.size(), pci};
  const std::optional<std::string> uuid = amd_uuid(line_of(folder + "/unique_id"));
  const std::uint64_t total = number_of(folder + "/mem_info_vram_total").value_or(0);
  const auto known = known_.find(place);
  // Files that cannot be read any more do not make it another GPU.
  if (known != known_.end() && (!uuid || *uuid == known->second.facts.uuid)) {
    known->second.folder = folder;
    known->second.is_there = true;
    return;
  }
  if (!uuid || total == 0) return;
  if (known == known_.end() && known_.size() == kMaxGpus) return;
  // It was moved to another slot, or is a part of a GPU that was divided: a lane has one place.
  const auto same =
      std::ranges::find_if(known_, [&](const auto& one) { return one.second.facts.uuid == *uuid; });
  if (same != known_.end()) {
    if (same->second.is_there) return;
    known_.erase(same);
  }
  Locality locality = locality_of(sysfs_, pci);
  known_[place] = {.folder = folder,
                   .facts = {.uuid = *uuid,
                             .name = name_of(folder),
                             .pci = pci,
                             .numa_node = locality.numa_node,
                             .near_cpus = std::move(locality.near_cpus),
                             .total_bytes = total}};
}

std::vector<GpuUsage> AmdLooker::usage(const std::vector<std::string>& uuids,
                                       const std::set<int>& skip,
                                       const std::function<void(int)>& before) const {
  std::vector<GpuUsage> found;
  for (const auto& [place, known] : known_) {
    const bool is_asked = std::ranges::find(uuids, known.facts.uuid) != uuids.end();
    if (!is_asked || !known.is_there || skip.count(known.facts.index) > 0) continue;
    before(known.facts.index);
    found.push_back({.uuid = known.facts.uuid,
                     .busy_percent = busy_percent_of(known.folder),
                     .used_bytes = number_of(known.folder + "/mem_info_vram_used")});
  }
  return found;
}

}  // namespace pergpu::gpu
