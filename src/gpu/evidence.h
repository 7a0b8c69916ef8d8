// What GPUs and their driver say about an attempt that failed on them.  Pure.
#pragma once

#include <cstdint>
#include <map>
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

/// As text; empty: nothing is known.
struct AttemptFaults {
  std::string hardware = {};  // what broke
  std::string driver = {};    // what is wrong with the driver
  std::string notes = {};     // what else was reported
};

/// The errors of late, of all GPUs: when each number was last seen, for a storm of one error must
/// not push out another.
class XidHistory {
 public:
  void take(const GpuLook& look);
  /// The numbers that a GPU has reported from then on, in order.
  std::vector<std::int64_t> since(const std::string& uuid, std::int64_t from_boot_ns) const;

 private:
  std::map<std::string, std::map<std::int64_t, std::int64_t>> last_;  // number -> boot_ns
};

/// `look`: asked for at the attempt's end; an incomplete one says little, and what it does not say
/// is not invented.  `xids`: with those of that look.  What broke counts from the attempt's start
/// on, notes only from `notes_from_boot_ns` on.  REQUIRES: the GPUs are still the attempt's.
AttemptFaults faults_of(const GpuLook& look, const XidHistory& xids,
                        const std::vector<AttemptGpu>& gpus, std::int64_t started_boot_ns,
                        std::int64_t notes_from_boot_ns = 0);

}  // namespace pergpu::gpu
