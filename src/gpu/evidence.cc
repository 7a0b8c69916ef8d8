// A GPU that is not shared is one job's at a time, is looked at right before a start, and stays
// that job's until the look at its end has been judged.  So what is learned of it between these two
// is of this attempt, however late the second comes.
#include "gpu/evidence.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/health.h"

namespace pergpu::gpu {
namespace {

constexpr std::size_t kMostNumbers = 256;  // of one GPU; the table has about 100

void add(std::string& words, const std::string& more) {
  words += (words.empty() ? "" : "; ") + more;
}

}  // namespace

void XidHistory::take(const GpuLook& look) {
  for (const GpuXid& xid : look.xids) {
    std::map<std::int64_t, std::int64_t>& of_gpu = last_[xid.uuid];
    of_gpu[xid.number] = xid.boot_ns;
    if (of_gpu.size() > kMostNumbers) {
      of_gpu.erase(std::ranges::min_element(of_gpu, {}, [](const auto& e) { return e.second; }));
    }
  }
}

std::vector<std::int64_t> XidHistory::since(const std::string& uuid,
                                            std::int64_t from_boot_ns) const {
  std::vector<std::int64_t> numbers;
  const auto of_gpu = last_.find(uuid);
  if (of_gpu == last_.end()) return numbers;
  for (const auto& [number, boot_ns] : of_gpu->second) {
    if (boot_ns >= from_boot_ns) numbers.push_back(number);
  }
  return numbers;
}

AttemptFaults faults_of(const GpuLook& look, const XidHistory& xids,
                        const std::vector<AttemptGpu>& gpus, std::int64_t started_boot_ns,
                        std::int64_t notes_from_boot_ns) {
  AttemptFaults faults;
  for (const AttemptGpu& gpu : gpus) {
    const std::vector<std::int64_t> recent = xids.since(gpu.uuid, notes_from_boot_ns);
    for (const std::int64_t number : xids.since(gpu.uuid, started_boot_ns)) {
      const XidEntry* entry = xid_entry(number);
      const XidKind kind = entry != nullptr ? entry->kind : XidKind::Ignore;
      const bool is_note = kind != XidKind::Hardware && kind != XidKind::Driver;
      if (is_note && std::ranges::find(recent, number) == recent.end()) continue;
      std::string& words = kind == XidKind::Hardware ? faults.hardware
                           : kind == XidKind::Driver ? faults.driver
                                                     : faults.notes;
      add(words, fmt::format("{} reported {}", gpu.name, xid_words(number)));
    }
    if (!look.complete) continue;
    const auto reading = std::ranges::find(look.gpus, gpu.uuid, &GpuReading::uuid);
    if (reading == look.gpus.end()) continue;
    if (const auto fault = fault_of(*reading, gpu.conditions)) {
      add(faults.hardware, fmt::format("{}: {}", gpu.name, fault->words));
    }
  }
  if (look.driver_mismatch) add(faults.driver, look.why);
  return faults;
}

}  // namespace pergpu::gpu
