// The least time that some jobs can take, however they are scheduled, and what sets it: the longest
// chain of jobs that need each other, or something that too much work has to go through (lanes, a
// limit, a reservation).  Pure.
//
// Of what work has to go through:  the earliest start of any of it
//                                + all of it, divided by how much goes through at once
//                                + the least that comes after any of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forecast/forecast.h"

namespace pergpu {

struct LowerBound {
  enum class By : std::uint8_t {
    Nothing,      // there is nothing to do
    Chain,        // `chain`; of one: the longest job
    Lanes,        // of `pool`
    MaxParallel,  // of `step`
    Limit,        // `limit`
    MaxStarting,  // of `step`
    Cpus,
    Memory,
  };
  By by = By::Nothing;
  std::int64_t ns = 0;
  std::vector<std::uint32_t> chain =
      {};  // places in ForecastJobs::jobs, in the order in which they run
  LaneId::Pool pool = LaneId::Pool::Cpu;
  StepKey step = {};
  std::string limit = {};
  std::uint64_t at_once = 0;  // lanes, max_parallel, …: how much goes through at once
  std::int64_t work_ns = 0;   // lane time, or the like
};

/// Of the jobs that are `asked` about (by job).  Those that are held, wait for one that is, or have
/// no known duration count nothing.
LowerBound lower_bound(const ForecastJobs& jobs, const ForecastLinks& links,
                       const ForecastMachine& machine, const std::vector<bool>& asked);

}  // namespace pergpu
