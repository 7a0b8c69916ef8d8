// When jobs and sweeps are expected to end, as it was looked into at one instant.  For
// coordinator/*.cc only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>

#include "coordinator/coordinator.h"

namespace pergpu {

struct Coordinator::ExpectedEnds {
  std::int64_t made_ns = 0;   // boot clock
  std::uint64_t changes = 0;  // Coordinator::changes_ then
  // By the boot clock.  Of a sweep nullopt: not known.
  std::unordered_map<JobId, std::int64_t> jobs = {};
  std::map<SweepId, std::optional<std::int64_t>> sweeps = {};
};

}  // namespace pergpu
