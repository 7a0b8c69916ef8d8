// What GPUs and their driver say about an attempt that failed on them.  Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/inventory.h"

namespace pergpu::gpu {

/// A GPU of the attempt.
struct AttemptGpu {
  std::string uuid = {};
  std::string name = {};      // "gpu0", for words
  unsigned conditions = ~0u;  // that count against it (Quarantines::counted)
};

/// In words; empty: nothing is known.
struct AttemptFaults {
  std::string hardware = {};  // what broke
  std::string driver = {};    // what is wrong with the driver
  std::string notes = {};     // what else was reported
};

/// The errors of late, of all GPUs.
class XidHistory {
 public:
  void take(const GpuLook& look);
  /// Those of a GPU that were learnt in [from, to], oldest first, each number once.
  std::vector<std::int64_t> between(const std::string& uuid, std::int64_t from_boot_ns,
                                    std::int64_t to_boot_ns) const;

 private:
  std::vector<GpuXid> xids_;
};

/// How long after an attempt's end an error still belongs to it: drivers report late.
constexpr std::int64_t kXidsAfterEndNs = 5'000'000'000;

/// `look`: asked for at the attempt's end; an incomplete one says little, and what it does not say
/// is not invented.  `xids`: with those of that look.
AttemptFaults faults_of(const GpuLook& look, const XidHistory& xids,
                        const std::vector<AttemptGpu>& gpus, std::int64_t started_boot_ns,
                        std::int64_t ended_boot_ns);

}  // namespace pergpu::gpu
