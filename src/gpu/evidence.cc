// A GPU is one job's at a time and is looked at right before a start, so what is learnt of it
// between that look and the one at the end is of this attempt.
#include "gpu/evidence.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/health.h"

namespace pergpu::gpu {
namespace {

constexpr std::size_t kMostXidsKept = 1024;

void add(std::string& words, const std::string& more) {
  words += (words.empty() ? "" : "; ") + more;
}

}  // namespace

void XidHistory::take(const GpuLook& look) {
  xids_.insert(xids_.end(), look.xids.begin(), look.xids.end());
  if (xids_.size() > kMostXidsKept) {
    xids_.erase(xids_.begin(), xids_.end() - static_cast<std::ptrdiff_t>(kMostXidsKept / 2));
  }
}

std::vector<std::int64_t> XidHistory::between(const std::string& uuid, std::int64_t from_boot_ns,
                                              std::int64_t to_boot_ns) const {
  std::vector<std::int64_t> numbers;
  for (const GpuXid& xid : xids_) {
    if (xid.uuid != uuid || xid.boot_ns < from_boot_ns || xid.boot_ns > to_boot_ns) continue;
    if (std::ranges::find(numbers, xid.number) == numbers.end()) numbers.push_back(xid.number);
  }
  return numbers;
}

AttemptFaults faults_of(const GpuLook& look, const XidHistory& xids,
                        const std::vector<AttemptGpu>& gpus, std::int64_t started_boot_ns,
                        std::int64_t ended_boot_ns) {
  AttemptFaults faults;
  for (const AttemptGpu& gpu : gpus) {
    for (const std::int64_t number :
         xids.between(gpu.uuid, started_boot_ns, ended_boot_ns + kXidsAfterEndNs)) {
      const XidEntry* entry = xid_entry(number);
      const XidKind kind = entry != nullptr ? entry->kind : XidKind::Ignore;
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
